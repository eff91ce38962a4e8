#include "libmeg/resume/hypotheses.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/model/parameter_table.h"
#include "libmeg/schedule/scheduler_flags.h"

// Each hypothesis is the trainer's own resume with one thing changed: in its options, where the
// fault is a flag, or between the load and the first step, where it is a part that was lost.

namespace meg::resume {
namespace {

using train::RunParts;
using train::TrainerOptions;
using train::TrainingProgress;

struct Zeroed {
  bool exp_avg = true, exp_avg_sq = true;
};

Status zero_moments(RunParts parts, Zeroed zeroed) {
  return libtorch::torch_guard([&]() -> Status {
    MEG_ASSIGN_OR_RETURN(const std::vector<train::Optimizer::ParameterState> states,
                         parts.optimizer.states());
    for (const train::Optimizer::ParameterState& state : states) {
      if (zeroed.exp_avg) state.exp_avg.zero_();
      if (zeroed.exp_avg_sq) state.exp_avg_sq.zero_();
    }
    return parts.optimizer.take_states(states);
  });
}

Status restart_schedule(const ResumeCase& resumed, RunParts parts) {
  MEG_ASSIGN_OR_RETURN(parts.scheduler,
                       schedule::get_optimizer_param_scheduler(resumed.options.schedule));
  // The optimizer came with the rates of the step that was due.
  const auto& optimizer = resumed.state.optimizer;
  if (optimizer.has_value()) {
    parts.scheduler.set_next_rates(optimizer->decay.lr, optimizer->decay.weight_decay);
  }
  return {};
}

void add_optimizer(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  if (!resumed.state.optimizer.has_value()) return;
  all.push_back({.name = "optimizer-not-loaded",
                 .cause = "the optimizer and the schedule were not loaded, as with `no_load_optim`",
                 .first = FirstChange::kSchedule,
                 .options = [](TrainerOptions& run) { run.checkpoints.no_load_optim = true; }});
  all.push_back({.name = "optimizer-state-lost",
                 .cause =
                     "the optimizer's moments and its step counter started from zero, the schedule "
                     "went on",
                 .first = FirstChange::kUpdate,
                 .loaded = [](RunParts parts, TrainingProgress&) {
                   parts.optimizer.set_updates(0);
                   return zero_moments(parts, {});
                 }});
  all.push_back(
      {.name = "moments-zeroed",
       .cause = "the optimizer's moments were zero, its step counter went on",
       .first = FirstChange::kUpdate,
       .loaded = [](RunParts parts, TrainingProgress&) { return zero_moments(parts, {}); }});
  all.push_back({.name = "exp-avg-zeroed",
                 .cause = "the optimizer's first moment (exp_avg) was zero",
                 .first = FirstChange::kUpdate,
                 .loaded = [](RunParts parts, TrainingProgress&) {
                   return zero_moments(parts, {.exp_avg = true, .exp_avg_sq = false});
                 }});
  all.push_back({.name = "exp-avg-sq-zeroed",
                 .cause = "the optimizer's second moment (exp_avg_sq) was zero",
                 .first = FirstChange::kUpdate,
                 .loaded = [](RunParts parts, TrainingProgress&) {
                   return zero_moments(parts, {.exp_avg = false, .exp_avg_sq = true});
                 }});
  all.push_back({.name = "step-counter-restarted",
                 .cause = "the optimizer's step counter started from zero, and with it Adam's bias "
                          "correction; the moments were loaded",
                 .first = FirstChange::kUpdate,
                 .loaded = [](RunParts parts, TrainingProgress&) {
                   parts.optimizer.set_updates(0);
                   return Status();
                 }});
}

void add_schedule(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  if (!resumed.state.opt_param_scheduler.has_value()) return;
  all.push_back({.name = "schedule-restarted",
                 .cause = "the schedule of learning rate and weight decay started from zero",
                 .first = FirstChange::kSchedule,
                 .loaded = [&resumed](RunParts parts, TrainingProgress&) {
                   return restart_schedule(resumed, parts);
                 }});
  all.push_back({.name = "schedule-of-flags",
                 .cause = "learning rate and weight decay came from the flags instead of the "
                          "checkpoint, as with `override_opt_param_scheduler`",
                 .first = FirstChange::kSchedule,
                 .options = [](TrainerOptions& run) {
                   run.schedule.use_checkpoint_opt_param_scheduler = false;
                   run.schedule.override_opt_param_scheduler = true;
                 }});
  all.push_back({.name = "schedule-of-checkpoint",
                 .cause = "learning rate and weight decay came from the checkpoint instead of the "
                          "flags, as with `use_checkpoint_opt_param_scheduler`",
                 .first = FirstChange::kSchedule,
                 .options = [](TrainerOptions& run) {
                   run.schedule.override_opt_param_scheduler = false;
                   run.schedule.use_checkpoint_opt_param_scheduler = true;
                 }});
  // What Megatron's groups have until the schedule's first step of its own.
  all.push_back({.name = "no-weight-decay",
                 .cause = "no weight decay was applied",
                 .first = FirstChange::kUpdate,
                 .options = [](TrainerOptions& run) {
                   run.schedule.weight_decay = 0;
                   run.schedule.start_weight_decay = run.schedule.end_weight_decay = std::nullopt;
                   run.schedule.weight_decay_incr_style = schedule::WeightDecayIncrStyle::kConstant;
                   run.schedule.use_checkpoint_opt_param_scheduler = false;
                   run.schedule.override_opt_param_scheduler = true;
                 }});
}

void add_precision(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  const TrainerOptions& run = resumed.options;
  if (run.model.params_dtype == at::kFloat) return;
  all.push_back({.name = "masters-of-16-bits",
                 .cause = "the fp32 masters were made from the 16-bit weights instead of loaded",
                 .first = FirstChange::kUpdate,
                 .loaded = [](RunParts parts, TrainingProgress&) {
                   return parts.optimizer.copy_model_to_masters();
                 }});
  const bool is_dynamic = run.model.params_dtype == at::kHalf && run.loss_scale.value_or(0) == 0;
  if (!is_dynamic) return;
  all.push_back({.name = "loss-scale-reset",
                 .cause = "the loss scale started again at `initial_loss_scale`",
                 .first = FirstChange::kSchedule,
                 .loaded = [scaler = run.loss_scaler](RunParts parts, TrainingProgress&) {
                   return parts.optimizer.scaler()->load_state_dict(
                       {.scale = static_cast<float>(scaler.initial_scale),
                        .growth_tracker = 0,
                        .hysteresis_tracker = scaler.hysteresis});
                 }});
}

/// Options with other samples, whose index caches stay out of the run's.
template <class Change>
std::function<void(TrainerOptions&)> with_data(const ResumeCase& resumed, Change change) {
  return [change, folder = resumed.cache_path](TrainerOptions& run) {
    change(run.data);
    run.data.cache_path = folder;
  };
}

void add_samples(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  const TrainerOptions& run = resumed.options;
  const int64_t consumed = resumed.state.consumed_train_samples;
  const int64_t batch = run.batch_schedule.batch_size_after(consumed);
  if (consumed > 0) {
    Hypothesis restarted = shifted_samples(-consumed);
    restarted.name = "samples-restarted";
    restarted.cause = "the samples started again with the first one";
    all.push_back(std::move(restarted));
  }
  for (const int64_t batches : {-1, 1, -2, 2}) {
    if (consumed + batches * batch > 0) all.push_back(shifted_samples(batches * batch));
  }
  const auto with_seed = [&](int64_t seed) {
    if (seed == run.data.seed) return;
    all.push_back(
        {.name = "other-seed",
         .cause = fmt::format("the samples are those of `seed` {}, not {}", seed, run.data.seed),
         .options = with_data(resumed, [seed](auto& data) { data.seed = seed; })});
  };
  const auto saved_seed = resumed.state.args.field("seed");
  const int64_t* const seed = saved_seed ? std::get_if<int64_t>(&*saved_seed) : nullptr;
  if (seed != nullptr) with_seed(*seed);
  for (const int64_t other : {int64_t{1234}, int64_t{42}, run.data.seed + 1, run.data.seed - 1}) {
    if (other > 0 && (seed == nullptr || other != *seed)) with_seed(other);
  }
  std::vector<std::string> splits;
  const auto with_split = [&](const std::string& split) {
    const bool is_known = split == run.data.split || std::ranges::count(splits, split) != 0;
    if (is_known || !run.data.blend.has_value()) return;
    splits.push_back(split);
    all.push_back(
        {.name = "other-split",
         .cause = fmt::format("the samples are those of `split` {}, not {}", split, run.data.split),
         .options = with_data(resumed, [split](auto& data) { data.split = split; })});
  };
  const auto saved_split = resumed.state.args.field("split");
  const std::string* const split = saved_split ? std::get_if<std::string>(&*saved_split) : nullptr;
  if (split != nullptr) with_split(*split);
  for (const char* usual : {"969, 30, 1", "949,50,1", "100,0,0", "99,1,0", "98,2,0", "90,10,0"}) {
    with_split(usual);
  }
}

void add_blends(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  const auto& blend = resumed.options.data.blend;
  if (!blend.has_value() || blend->prefixes.size() < 2) return;
  const auto with_blend = [&](const std::string& what, samples::Blend other) {
    all.push_back({.name = "other-blend",
                   .cause = "the samples are those of another `data_path`: " + what,
                   .options = with_data(resumed, [other](auto& data) { data.blend = other; })});
  };
  samples::Blend reversed = *blend;
  std::ranges::reverse(reversed.prefixes);
  with_blend("its datasets in reversed order", reversed);
  if (blend->weights.has_value()) {
    samples::Blend equal = *blend;
    std::ranges::fill(*equal.weights, 1.0);
    with_blend("its datasets with equal weights", std::move(equal));
    std::ranges::reverse(*reversed.weights);
    with_blend("its datasets and weights in reversed order", std::move(reversed));
  }
  constexpr size_t kMostLeftOut = 8;
  for (size_t i = 0; i < std::min(blend->prefixes.size(), kMostLeftOut); ++i) {
    samples::Blend fewer = *blend;
    const auto at = static_cast<std::ptrdiff_t>(i);
    fewer.prefixes.erase(fewer.prefixes.begin() + at);
    if (fewer.weights.has_value()) fewer.weights->erase(fewer.weights->begin() + at);
    with_blend("without " + blend->prefixes[i], std::move(fewer));
  }
}

/// Loads weights, and the optimizer unless told otherwise, into a run that loaded them before.
Status load_again(const train::CheckpointOptions& from, const ResumeCase& resumed, RunParts parts) {
  const auto quiet = [](const std::string&) {};
  MEG_ASSIGN_OR_RETURN(const auto opened, train::open_checkpoint(from, quiet));
  const auto& args = resumed.options.args;
  return train::load_checkpoint(
             *opened, from, [&args](std::string_view name) { return args.field(name); }, parts,
             quiet)
      .status();
}

Status load_moments(const train::CheckpointOptions& from, const ResumeCase& resumed,
                    RunParts parts) {
  return libtorch::torch_guard([&]() -> Status {
    using States = std::vector<train::Optimizer::ParameterState>;
    const schedule::OptimizerParamScheduler scheduler = parts.scheduler;
    MEG_RETURN_IF_ERROR(load_again(from, resumed, parts));
    const int64_t updates = parts.optimizer.updates();
    MEG_ASSIGN_OR_RETURN(States moments, parts.optimizer.states());
    for (train::Optimizer::ParameterState& state : moments) {
      state.exp_avg = state.exp_avg.clone();
      state.exp_avg_sq = state.exp_avg_sq.clone();
    }
    MEG_RETURN_IF_ERROR(load_again(resumed.options.checkpoints, resumed, parts));
    parts.scheduler = scheduler;
    parts.optimizer.set_updates(updates);
    MEG_ASSIGN_OR_RETURN(const States states, parts.optimizer.states());
    for (size_t i = 0; i < states.size(); ++i) {
      states[i].exp_avg.copy_(moments[i].exp_avg);
      states[i].exp_avg_sq.copy_(moments[i].exp_avg_sq);
    }
    return parts.optimizer.take_states(states);
  });
}

void add_other_iterations(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  for (const int64_t iteration : resumed.other_iterations) {
    train::CheckpointOptions other = resumed.options.checkpoints;
    other.ckpt_step = iteration;
    if (resumed.state.optimizer.has_value()) {
      all.push_back({.name = "moments-of-another-iteration",
                     .cause = fmt::format("the optimizer's moments and its step counter are those "
                                          "of iteration {}",
                                          iteration),
                     .first = FirstChange::kUpdate,
                     .loaded = [other, &resumed](RunParts parts, TrainingProgress&) {
                       return load_moments(other, resumed, parts);
                     }});
    }
    other.finetune = true;
    all.push_back({.name = "weights-of-another-iteration",
                   .cause = fmt::format("the weights are those of iteration {}", iteration),
                   .loaded = [other, &resumed](
                                 RunParts parts,
                                 TrainingProgress&) { return load_again(other, resumed, parts); },
                   .weights_of = iteration});
  }
}

/// Puts rows of the vocabulary, and what the optimizer has of them, into other places. reordered:
/// makes a new tensor.
Status reorder_vocabulary(RunParts parts,
                          const std::function<at::Tensor(const at::Tensor&)>& reordered) {
  return libtorch::torch_guard([&]() -> Status {
    MEG_ASSIGN_OR_RETURN(const std::vector<train::Optimizer::ParameterState> states,
                         parts.optimizer.states());
    const auto parameters = parts.model.parameters();
    for (size_t i = 0; i < states.size(); ++i) {
      if (parameters[i].partition != model::Partition::kVocabulary) continue;
      for (const at::Tensor& tensor : {parameters[i].tensor.detach(), states[i].master,
                                       states[i].exp_avg, states[i].exp_avg_sq}) {
        if (tensor.defined()) tensor.copy_(reordered(tensor));
      }
    }
    return parts.optimizer.take_states(states);
  });
}

/// Two of the ranks from `begin` on: each two of few, and neighbours of many.
std::vector<std::pair<int64_t, int64_t>> pairs_of_ranks(int64_t begin, int64_t end) {
  constexpr int64_t kFew = 4;
  const int64_t farthest = end - begin <= kFew ? kFew : 1;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t one = begin; one < end; ++one) {
    for (int64_t other = one + 1; other < end && other <= one + farthest; ++other) {
      pairs.emplace_back(one, other);
    }
  }
  return pairs;
}

void add_exchanged_shards(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  const int64_t ranks = resumed.tensor_model_parallel_size;
  for (const auto& [one, other] : pairs_of_ranks(0, ranks)) {
    // What a rank has of a layer belongs together, whichever rank has it: only rows of the
    // vocabulary come to other places.
    const auto exchanged = [ranks, one = one, other = other](const at::Tensor& tensor) {
      std::vector<at::Tensor> shards = tensor.chunk(ranks);
      std::swap(shards.at(static_cast<size_t>(one)), shards.at(static_cast<size_t>(other)));
      return at::cat(shards);
    };
    all.push_back({.name = "tensor-shards-exchanged",
                   .cause = fmt::format("tensor-parallel ranks {} and {} loaded each other's files",
                                        one, other),
                   .vocabulary = exchanged});
  }
}

/// Exchanges layers [one, one + count) and [other, other + count).
Status exchange_layers(RunParts parts, int64_t one, int64_t other, int64_t count) {
  return libtorch::torch_guard([&]() -> Status {
    MEG_ASSIGN_OR_RETURN(const std::vector<train::Optimizer::ParameterState> states,
                         parts.optimizer.states());
    const auto parameters = parts.model.parameters();
    std::map<std::string_view, size_t> places;
    for (size_t i = 0; i < parameters.size(); ++i) places[parameters[i].name] = i;
    const auto exchange = [](const at::Tensor& a, const at::Tensor& b) {
      if (!a.defined()) return;
      const at::Tensor kept = a.clone();
      a.copy_(b);
      b.copy_(kept);
    };
    for (int64_t layer = one; layer < one + count; ++layer) {
      const std::string prefix = model::with_layer("decoder.layers.{}.", layer);
      for (const auto& [name, i] : places) {
        if (!name.starts_with(prefix)) continue;
        const auto j = places.find(model::with_layer("decoder.layers.{}.", layer + other - one) +
                                   std::string(name.substr(prefix.size())));
        // Layers with and without experts have other parameters.
        if (j == places.end()) continue;
        exchange(parameters[i].tensor.detach(), parameters[j->second].tensor.detach());
        exchange(states[i].master, states[j->second].master);
        exchange(states[i].exp_avg, states[j->second].exp_avg);
        exchange(states[i].exp_avg_sq, states[j->second].exp_avg_sq);
      }
    }
    return parts.optimizer.take_states(states);
  });
}

void add_exchanged_stages(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  const int64_t stages = resumed.pipeline_model_parallel_size;
  const int64_t layers = resumed.options.config.num_layers;
  if (layers % stages != 0) return;
  // The first and the last one have parameters that the others' files lack.
  for (const auto& [one, other] : pairs_of_ranks(1, stages - 1)) {
    const int64_t count = layers / stages;
    all.push_back(
        {.name = "pipeline-stages-exchanged",
         .cause = fmt::format("pipeline stages {} and {} loaded each other's files", one, other),
         .loaded = [one = one, other = other, count](RunParts parts, TrainingProgress&) {
           return exchange_layers(parts, one * count, other * count, count);
         }});
  }
}

void add_other_ids(std::vector<Hypothesis>& all) {
  for (const int64_t shift : {1, -1, 2, -2, 3, -3, 4, -4}) {
    all.push_back(
        {.name = "vocabulary-shifted",
         .cause = fmt::format("tokens have ids that are {} {} than those of the "
                              "checkpoint's run, as of another tokenizer",
                              std::abs(shift), shift > 0 ? "higher" : "lower"),
         .vocabulary = [shift](const at::Tensor& tensor) { return tensor.roll(-shift, 0); }});
  }
}

void add_dropout(const ResumeCase& resumed, std::vector<Hypothesis>& all) {
  const nn::GptOptions& model = resumed.options.model;
  if (model.hidden_dropout == 0 && model.attention_dropout == 0) return;
  all.push_back({.name = "random-states-restarted",
                 .cause = "the random states of dropout were not loaded, as with `no_load_rng`",
                 .options = [](TrainerOptions& run) { run.checkpoints.no_load_rng = true; }});
}

}  // namespace

Hypothesis shifted_samples(int64_t shift) {
  return {.name = "samples-shifted",
          .cause = fmt::format("the samples are {} {} than those that were due", std::abs(shift),
                               shift > 0 ? "later" : "earlier"),
          .loaded =
              [shift](RunParts, TrainingProgress& progress) {
                progress.consumed_train_samples += shift;
                return Status();
              },
          .sample_shift = shift};
}

std::vector<Hypothesis> hypotheses_of(const ResumeCase& resumed) {
  std::vector<Hypothesis> all;
  add_optimizer(resumed, all);
  add_schedule(resumed, all);
  add_precision(resumed, all);
  add_samples(resumed, all);
  add_blends(resumed, all);
  add_other_iterations(resumed, all);
  add_exchanged_shards(resumed, all);
  add_exchanged_stages(resumed, all);
  add_other_ids(all);
  add_dropout(resumed, all);
  return all;
}

Status after_load(const Hypothesis& hypothesis, RunParts parts, TrainingProgress& progress) {
  if (hypothesis.vocabulary) MEG_RETURN_IF_ERROR(reorder_vocabulary(parts, hypothesis.vocabulary));
  return hypothesis.loaded ? hypothesis.loaded(parts, progress) : Status();
}

Hypothesis both(const Hypothesis& one, const Hypothesis& other) {
  return {.name = fmt::format("{} + {}", one.name, other.name),
          .cause = fmt::format("{}; and {}", one.cause, other.cause),
          .first = std::min(one.first, other.first),
          .options =
              [one, other](TrainerOptions& run) {
                if (one.options) one.options(run);
                if (other.options) other.options(run);
              },
          .loaded = [one, other](RunParts parts, TrainingProgress& progress) -> Status {
            MEG_RETURN_IF_ERROR(after_load(one, parts, progress));
            return after_load(other, parts, progress);
          },
          .sample_shift = one.sample_shift + other.sample_shift};
}

std::vector<std::string> hypotheses_not_tried() {
  return {
      "a tied embedding whose copies differ (verify checkpoint compares those in the files)",
      "shards of data-parallel ranks exchanged, virtual stages, and files of more than two ranks",
      "another tokenizer whose ids are not just shifted",
      "seeds, splits and blends other than the usual ones and those in the checkpoint",
      "fp32 masters made from 16-bit weights, where that changes less than the tolerance",
      "three faults at once, and two that change the same figures first"};
}

}  // namespace meg::resume
