#include "libmeg/resume/judge_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <optional>

#include "libmeg/model/rank_memory.h"
#include "libmeg/model/theoretical_memory.h"

namespace meg::resume {
namespace {

using train::StepReport;
using train::TrainerOptions;

/// Runs some steps of a run that is loaded and changed as a hypothesis says.
Result<std::vector<StepReport>> compute_steps(TrainerOptions options, const Hypothesis& hypothesis,
                                              int64_t count, std::vector<std::string>& warnings) {
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
      .loaded = hypothesis.loaded};
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<train::Trainer> trainer,
                       train::Trainer::create(std::move(options), hooks));
  trainer->watch([&steps](const StepReport& step) { steps.push_back(step); }, {});
  MEG_RETURN_IF_ERROR(trainer->run());
  return steps;
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
        steps_(steps_to_compute(lines, options.steps)) {}

  Result<Verdict> judge() {
    begin("the run as it should go on");
    MEG_ASSIGN_OR_RETURN(const std::vector<StepReport> steps,
                         compute_steps(resumed_.options, {}, steps_, verdict_.warnings));
    verdict_.figures = compare_steps(lines_, steps, options_.tolerances);
    if (std::ssize(steps) < steps_) {
      return make_error(StatusCode::kInvalidArgument,
                        "expected {} steps after the checkpoint, as in the log, found that the run "
                        "ends after {}: `train_iters` or `train_samples` are others",
                        steps_, steps.size());
    }
    if (verdict_.equal()) return std::move(verdict_);
    const std::vector<Hypothesis> all = hypotheses_of(resumed_);
    const bool of_later_steps = first_step_fits();
    const auto is_likely = [&](const Hypothesis& hypothesis) {
      return of_later_steps == (hypothesis.first != FirstChange::kLoss);
    };
    try_those(all, is_likely);
    if (!of_later_steps && !found()) search_samples();
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

  void try_it(const Hypothesis& hypothesis) {
    begin(hypothesis.name);
    Trial trial{.name = hypothesis.name, .cause = hypothesis.cause, .figures = {}, .error = {}};
    std::vector<std::string> ignored;
    const auto steps = compute_steps(resumed_.options, hypothesis, steps_, ignored);
    if (steps.has_value()) {
      trial.figures = compare_steps(lines_, *steps, options_.tolerances, hypothesis.sample_shift);
    } else {
      trial.error = steps.error().message();
    }
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
      } else if (verdict_.untried.empty() || verdict_.untried.back() != hypothesis.name) {
        verdict_.untried.push_back(hypothesis.name);
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
        if (other.first != one.first) try_it(both(one, other));
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
    const auto steps = compute_steps(resumed_.options, frozen, batches, ignored);
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
