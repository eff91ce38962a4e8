#include "libmeg/resume/judge_resume.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <optional>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/model/rank_memory.h"
#include "libmeg/model/theoretical_memory.h"

namespace meg::resume {
namespace {

using train::StepReport;
using train::TrainerOptions;

/// Runs some steps of a run that is loaded and changed as a hypothesis says. made: called after
/// each.
Result<std::vector<StepReport>> compute_steps(TrainerOptions options, const Hypothesis& hypothesis,
                                              int64_t count, std::vector<std::string>& warnings,
                                              const std::function<void()>& made) {
  // Nothing but the steps: no evaluations, files or curves.
  options.checkpoints.save = options.tensorboard_dir = std::nullopt;
  options.trace_schedule = std::nullopt;
  options.length.eval_iters = 0;
  options.length.full_validation = false;
  options.exit_interval = std::nullopt;
  options.exit_duration_in_mins = std::nullopt;
  if (hypothesis.options) hypothesis.options(options);
  std::vector<StepReport> steps;
  const train::TrainerHooks hooks = {
      .print =
          [&warnings](const std::string& line) {
            if (line.starts_with("WARNING: ")) warnings.push_back(line.substr(9));
          },
      // A run ends after the step at which it is asked to.
      .received_signal = [&] { return std::ssize(steps) >= count ? SIGTERM : 0; },
      .loaded =
          [&hypothesis](train::RunParts parts, train::TrainingProgress& progress) {
            return after_load(hypothesis, parts, progress);
          }};
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<train::Trainer> trainer,
                       train::Trainer::create(std::move(options), hooks));
  trainer->watch(
      [&](const StepReport& step) {
        steps.push_back(step);
        made();
      },
      {});
  MEG_RETURN_IF_ERROR(trainer->run());
  return steps;
}

/// Does to a part of the model what a hypothesis does to its vocabulary.
Status reorder_vocabulary(const Hypothesis& hypothesis, nn::GptModel& part) {
  if (!hypothesis.vocabulary) return {};
  return libtorch::torch_guard([&]() -> Status {
    for (const nn::GptParameter& parameter : part.parameters()) {
      if (parameter.partition != model::Partition::kVocabulary) continue;
      const at::Tensor table = parameter.tensor.detach();
      table.copy_(hypothesis.vocabulary(table));
    }
    return {};
  });
}

/// Steps up to the end of a line: at least those of the first, and no more lines than wanted.
int64_t steps_to_compute(std::span<const logging::LoggedInterval> lines, int64_t wanted) {
  const int64_t begin = lines.front().after;
  int64_t steps = lines.front().line.iteration - begin;
  for (const logging::LoggedInterval& line : lines) {
    if (line.line.iteration - begin <= wanted) steps = line.line.iteration - begin;
  }
  return steps;
}

class Judge {
 public:
  Judge(const ResumeCase& resumed, std::span<const logging::LoggedInterval> lines,
        const JudgeOptions& options)
      : resumed_(resumed),
        lines_(lines),
        options_(options),
        steps_(steps_to_compute(lines, options.steps)),
        work_(options.samples.has_value() ? *options.samples * resumed.options.config.num_layers
                                          : steps_) {}

  Result<Verdict> judge() {
    if (options_.samples.has_value()) MEG_RETURN_IF_ERROR(draw_samples());
    begin("the run as it should go on");
    expect(work_);
    MEG_ASSIGN_OR_RETURN(verdict_.figures, compare({}, verdict_.warnings));
    if (verdict_.equal()) return std::move(verdict_);
    std::vector<Hypothesis> all = hypotheses_of(resumed_);
    if (options_.samples.has_value()) {
      std::erase_if(all, [this](const Hypothesis& hypothesis) {
        const bool is_left_out = !hypothesis.needs_no_optimizer();
        if (is_left_out) leave_out(hypothesis);
        return is_left_out;
      });
    }
    expect(std::ssize(all) * work_);
    const bool of_later_steps = first_step_fits();
    const auto is_likely = [&](const Hypothesis& hypothesis) {
      return of_later_steps == (hypothesis.first != FirstChange::kLoss);
    };
    try_those(all, is_likely);
    if (!of_later_steps && !found() && !options_.samples.has_value()) search_samples();
    try_those(all, [&](const Hypothesis& hypothesis) { return !is_likely(hypothesis); });
    sort_trials();
    if (verdict_.cause() == nullptr) {
      try_pairs(all);
      sort_trials();
    }
    return std::move(verdict_);
  }

 private:
  /// A hypothesis that was tried, and how many figures it explains before the first that it does
  /// not.
  struct Tried {
    Hypothesis hypothesis;
    int64_t explained = 0;
  };

  static int64_t explained_by(const std::vector<ComparedFigure>& figures) {
    const auto differs = [](const ComparedFigure& figure) { return figure.misfit > 1; };
    return std::ranges::find_if(figures, differs) - figures.begin();
  }

  void sort_trials() { std::ranges::stable_sort(verdict_.trials, {}, &Trial::misfit); }

  void begin(std::string_view name) const {
    if (options_.begins) options_.begins(name);
  }

  bool found() const {
    return std::ranges::any_of(verdict_.trials, [](const Trial& trial) { return trial.fits(); });
  }

  /// Whether the first step's loss and gradient are what they should be, if a line tells them.
  bool first_step_fits() const {
    const logging::LoggedInterval& first = lines_.front();
    if (first.line.iteration != first.after + 1) return true;
    return std::ranges::all_of(verdict_.figures, [&](const ComparedFigure& figure) {
      const bool depends = figure.name == "lm loss" || figure.name == "grad norm";
      return !depends || figure.iteration != first.line.iteration || figure.misfit <= 1;
    });
  }

  /// More work, in steps or passes of a sequence through a layer.
  void expect(int64_t work) { expected_ += work; }

  void made(int64_t done) {
    done_ = done;
    if (options_.progress) {
      options_.progress({.documents = done_,
                         .total_documents = std::max(done_, expected_),
                         .counted = options_.samples.has_value() ? "layers" : "steps"});
    }
  }

  void leave_out(const Hypothesis& hypothesis) {
    if (verdict_.untried.empty() || verdict_.untried.back() != hypothesis.name) {
      verdict_.untried.push_back(hypothesis.name);
    }
  }

  /// Computes the run under a hypothesis, or as it should go on, and compares it with the log.
  Result<std::vector<ComparedFigure>> compare(const Hypothesis& hypothesis,
                                              std::vector<std::string>& warnings) {
    if (options_.samples.has_value()) return compare_sampled(hypothesis);
    MEG_ASSIGN_OR_RETURN(
        const std::vector<StepReport> steps,
        compute_steps(resumed_.options, hypothesis, steps_, warnings, [this] { made(done_ + 1); }));
    const bool is_of_run = hypothesis.name.empty();
    if (is_of_run && std::ssize(steps) < steps_) {
      return make_error(StatusCode::kInvalidArgument,
                        "expected {} steps after the checkpoint, as in the log, found that the run "
                        "ends after {}: `train_iters` or `train_samples` are others",
                        steps_, steps.size());
    }
    return compare_steps(lines_, steps, options_.tolerances, hypothesis.sample_shift);
  }

  /// Checks the number of samples that is asked for and draws those sequences.
  Status draw_samples() {
    const logging::LoggedInterval& first = lines_.front();
    const int64_t iteration = resumed_.state.iteration;
    const samples::BatchSchedule& batches = resumed_.options.batch_schedule;
    consumed_ = resumed_.state.consumed_train_samples;
    // As the trainer counts for a checkpoint that does not say it.
    if (consumed_ == 0) consumed_ = iteration * batches.global_batch_size();
    batch_size_ = batches.batch_size_after(consumed_);
    const int64_t count = *options_.samples;
    if (count < 1 || count > batch_size_) {
      return make_error(StatusCode::kInvalidArgument,
                        "`batch_samples`: expected 1 to the {} sequences of the batch, found {}",
                        batch_size_, count);
    }
    if (count == 1 && batch_size_ > 1) {
      return make_error(
          StatusCode::kInvalidArgument,
          "`batch_samples`: expected at least 2 of the {} sequences of the batch, found 1, "
          "which has no standard error",
          batch_size_);
    }
    if (first.line.iteration != iteration + 1 || !first.line.lm_loss().has_value()) {
      return make_error(
          StatusCode::kInvalidArgument,
          "`batch_samples`: expected a line with the loss of iteration {} alone, found {}",
          iteration + 1,
          first.line.iteration == iteration + 1
              ? "one without a loss"
              : fmt::format("the mean up to iteration {}", first.line.iteration));
    }
    positions_ =
        drawn_positions(count, batch_size_, static_cast<uint64_t>(resumed_.options.data.seed));
    return {};
  }

  Result<std::vector<ComparedFigure>> compare_sampled(const Hypothesis& hypothesis) {
    TrainerOptions options = resumed_.options;
    if (hypothesis.options) hypothesis.options(options);
    if (hypothesis.weights_of.has_value()) options.checkpoints.ckpt_step = hypothesis.weights_of;
    const int64_t begin = done_;
    MEG_ASSIGN_OR_RETURN(
        std::vector<train::SampleLoss> losses,
        train::streamed_losses(
            options, {.consumed = consumed_ + hypothesis.sample_shift, .positions = positions_},
            {.loaded = [&](nn::GptModel& part) { return reorder_vocabulary(hypothesis, part); },
             .passed = [&](int64_t done, int64_t) { made(begin + done); }}));
    const bool has_tokens =
        std::ranges::any_of(losses, [](const train::SampleLoss& loss) { return loss.tokens > 0; });
    if (!has_tokens) {
      return make_error(
          StatusCode::kInvalidArgument,
          "`batch_samples`: expected sequences with tokens that count in the loss, found {} "
          "without any",
          losses.size());
    }
    if (!options.version.losses_over_tokens) MEG_RETURN_IF_ERROR(count_alike(losses));
    const SampledLoss sampled = sampled_loss(losses, batch_size_);
    if (!verdict_.sampled.has_value()) verdict_.sampled = sampled;
    return compare_samples(lines_.front().line, sampled, consumed_ + batch_size_,
                           options_.tolerances, hypothesis.sample_shift);
  }

  /// Each sequence counts as much as another in a mean of micro-batches' means, unless
  /// micro-batches have several of different lengths.
  Status count_alike(std::vector<train::SampleLoss>& losses) const {
    const auto differs = [&](const train::SampleLoss& loss) {
      return loss.tokens != losses.front().tokens;
    };
    if (resumed_.options.batches.micro_batch_size > 1 && std::ranges::any_of(losses, differs)) {
      return Status(
          StatusCode::kUnsupported,
          "`batch_samples`: expected sequences of which as many tokens count in the loss, as "
          "this revision of Megatron-LM prints the mean of micro-batches, found others");
    }
    for (train::SampleLoss& loss : losses) {
      loss = {.loss_sum = loss.tokens > 0 ? loss.loss_sum / loss.tokens : 0, .tokens = 1};
    }
    return {};
  }

  void try_it(const Hypothesis& hypothesis) {
    begin(hypothesis.name);
    const int64_t end = done_ + work_;
    Trial trial{.name = hypothesis.name, .cause = hypothesis.cause, .figures = {}, .error = {}};
    std::vector<std::string> ignored;
    Result<std::vector<ComparedFigure>> compared = compare(hypothesis, ignored);
    if (compared.has_value()) {
      trial.figures = *std::move(compared);
    } else {
      trial.error = compared.error().message();
    }
    // Also where it ended early.
    made(end);
    trial.misfit = trial.figures.empty() ? kIncomparable : largest_misfit(trial.figures);
    tried_.push_back({hypothesis, explained_by(trial.figures)});
    verdict_.trials.push_back(std::move(trial));
  }

  /// All of one kind are tried, since several may fit; those of the next only where none does.
  template <class Chosen>
  void try_those(const std::vector<Hypothesis>& all, Chosen chosen) {
    const bool is_over = found() && !options_.try_all;
    for (const Hypothesis& hypothesis : all) {
      if (!chosen(hypothesis)) continue;
      if (!is_over) {
        try_it(hypothesis);
      } else {
        expect(-work_);
        leave_out(hypothesis);
      }
    }
  }

  /// Two faults: one of which the first figures tell, and another that changes later ones.
  void try_pairs(const std::vector<Hypothesis>& all) {
    int64_t most = explained_by(verdict_.figures);
    for (const Tried& tried : tried_) most = std::max(most, tried.explained);
    if (most == explained_by(verdict_.figures)) return;
    std::vector<Hypothesis> firsts;
    constexpr size_t kMostFirsts = 2;
    for (const Tried& tried : tried_) {
      if (tried.explained != most) continue;
      firsts.push_back(tried.hypothesis);
      if (firsts.size() == kMostFirsts) break;
    }
    for (const Hypothesis& one : firsts) {
      for (const Hypothesis& other : all) {
        if (other.first == one.first) continue;
        expect(work_);
        try_it(both(one, other));
      }
    }
  }

  /// Finds samples whose mean loss, by the weights in the checkpoint, is that of the log's first
  /// step, and tries those.
  void search_samples() {
    const logging::LoggedSteps& first = lines_.front().line;
    const std::optional<logging::LoggedFigure> wanted = first.lm_loss();
    const int64_t consumed = resumed_.state.consumed_train_samples;
    const int64_t batch = resumed_.options.batch_schedule.batch_size_after(consumed);
    const bool is_one_step = first.iteration == lines_.front().after + 1;
    if (!wanted.has_value() || !is_one_step || options_.search_batches == 0) return;
    begin("samples-shifted: searching");
    const int64_t begin = std::max<int64_t>(0, consumed - options_.search_batches * batch);
    const int64_t end = consumed + (options_.search_batches + 1) * batch;
    const std::vector<double> losses =
        sample_losses(begin - consumed, (end - begin + batch - 1) / batch);
    std::vector<std::pair<double, int64_t>> candidates;
    double sum = 0;
    for (int64_t i = 0; i < std::ssize(losses); ++i) {
      sum += losses[static_cast<size_t>(i)];
      if (i >= batch) sum -= losses[static_cast<size_t>(i - batch)];
      const int64_t shift = begin + i + 1 - batch - consumed;
      // Whole batches were tried before.
      if (i + 1 < batch || shift == 0 || std::abs(shift) == batch || std::abs(shift) == 2 * batch) {
        continue;
      }
      candidates.emplace_back(std::abs(sum / static_cast<double>(batch) - wanted->value), shift);
    }
    std::ranges::sort(candidates);
    constexpr size_t kTried = 3;
    candidates.resize(std::min(candidates.size(), kTried));
    expect(std::ssize(candidates) * work_);
    for (const auto& [difference, shift] : candidates) try_it(shifted_samples(shift));
  }

  /// The losses of single samples from `shift` on; those that could be computed.
  std::vector<double> sample_losses(int64_t shift, int64_t batches) {
    Hypothesis frozen = shifted_samples(shift);
    // A rate of zero changes no weight, so that each step has the checkpoint's.
    frozen.options = [](TrainerOptions& run) {
      run.batches.micro_batch_size = 1;
      run.schedule.lr = run.schedule.min_lr = run.schedule.lr_warmup_init = 0;
      if (run.schedule.decoupled_lr.has_value()) run.schedule.decoupled_lr = 0;
      if (run.schedule.decoupled_min_lr.has_value()) run.schedule.decoupled_min_lr = 0;
      run.schedule.use_checkpoint_opt_param_scheduler = false;
      run.schedule.override_opt_param_scheduler = true;
      run.optimizer.check_for_nan_in_loss_and_grad = false;
    };
    std::vector<std::string> ignored;
    expect(batches);
    const auto steps =
        compute_steps(resumed_.options, frozen, batches, ignored, [this] { made(done_ + 1); });
    std::vector<double> losses;
    if (!steps.has_value()) return losses;
    for (const StepReport& step : *steps) {
      losses.insert(losses.end(), step.micro_losses.begin(), step.micro_losses.end());
    }
    return losses;
  }

  const ResumeCase& resumed_;
  std::span<const logging::LoggedInterval> lines_;
  const JudgeOptions& options_;
  int64_t steps_;
  int64_t work_;  ///< Of one run: steps, or passes of a sequence through a layer.
  int64_t done_ = 0, expected_ = 0;
  // With JudgeOptions.samples.
  int64_t consumed_ = 0, batch_size_ = 0;
  std::vector<int64_t> positions_;
  Verdict verdict_;
  std::vector<Tried> tried_;
};

}  // namespace

const Trial* Verdict::likely() const {
  constexpr double kExplained = 0.01;
  constexpr double kAhead = 10;
  if (trials.empty() || trials.front().fits()) return nullptr;
  const Trial& best = trials.front();
  if (best.misfit > kExplained * largest_misfit(figures)) return nullptr;
  const bool is_alone = trials.size() == 1 || trials[1].misfit > kAhead * best.misfit;
  return is_alone ? &best : nullptr;
}

const Trial* Verdict::cause() const {
  return !trials.empty() && trials.front().fits() ? trials.data() : likely();
}

Result<Verdict> judge_resume(const ResumeCase& resumed,
                             std::span<const logging::LoggedInterval> lines,
                             const JudgeOptions& options) {
  return Judge(resumed, lines, options).judge();
}

Result<double> memory_of(const train::TrainerOptions& options) {
  model::TheoreticalMemoryOptions run;
  run.micro_batch_size = options.batches.micro_batch_size;
  run.num_microbatches =
      options.batch_schedule.global_batch_size() / options.batches.micro_batch_size;
  run.recompute_granularity = options.model.recompute_granularity;
  run.estimates_any_activations = true;
  MEG_ASSIGN_OR_RETURN(const model::TheoreticalMemory memory,
                       model::theoretical_memory(options.config, run));
  const bool is_sixteen_bit = options.model.params_dtype != at::kFloat;
  MEG_ASSIGN_OR_RETURN(
      const std::vector<model::RankMemory> stages,
      model::rank_memory(options.config, run,
                         {.sixteen_bit = is_sixteen_bit,
                          .widens_gradients = options.optimizer.accumulate_allreduce_grads_in_fp32},
                         memory));
  // The logits, their gradient and what the loss makes of them.
  constexpr double kCopiesOfLogits = 3;
  const double logits = static_cast<double>(options.batches.micro_batch_size) *
                        static_cast<double>(options.config.seq_length) *
                        static_cast<double>(options.config.padded_vocab_size) * sizeof(float);
  return stages.front().total_bytes() + kCopiesOfLogits * logits;
}

}  // namespace meg::resume
