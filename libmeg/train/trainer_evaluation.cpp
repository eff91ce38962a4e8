#include <fmt/format.h>

#include <algorithm>

#include "libmeg/train/internal/trainer_state.h"

// Evaluation of a split: --eval-iters batches of it, or all of it with --full-validation. Every
// data-parallel copy must run the same number of rounds, since losses are gathered after each; a
// copy whose share of a whole split is smaller takes part in the last rounds with fewer
// micro-batches or none.
//
// Mirrors Megatron-LM megatron/training/training.py: evaluate and evaluate_and_print_results.

namespace meg::train {
namespace {

// Samples are dealt to the copies in turn (0, 1, ..., 0, 1, ...). This is the largest number that a
// copy gets, the next function's what this copy gets.
int64_t most_samples_of_copy(int64_t samples, const parallel::ProcessGroup& copies) {
  return (samples + copies.size() - 1) / copies.size();
}

int64_t samples_of_copy(int64_t samples, const parallel::ProcessGroup& copies) {
  return (samples - copies.rank() + copies.size() - 1) / copies.size();
}

}  // namespace

Result<std::optional<double>> Trainer::State::evaluate(samples::Split split,
                                                       logging::Evaluation kind) {
  const int64_t batch_size = evaluation_batch_size();
  const int64_t at_once = micro_batches_of(batch_size, split);
  const bool whole_split = split == samples::Split::kValid && options.length.full_validation;
  if (whole_split) MEG_RETURN_IF_ERROR(data->begin_full_validation(split));
  const int64_t planned = options.length.eval_iters * at_once;
  const int64_t own = whole_split ? samples_of_copy(data->size(split), *ranks.data()) : planned;
  const int64_t most =
      whole_split ? most_samples_of_copy(data->size(split), *ranks.data()) : planned;
  // All of them, also where the run ends meanwhile: later evaluations are then those of a run that
  // was not stopped.
  if (split == samples::Split::kValid && !whole_split) {
    progress.consumed_valid_samples += options.length.eval_iters * batch_size;
  }
  // Megatron says how far it is at the end of a run alone, where there are no other lines.
  const bool is_final = kind != logging::Evaluation::kDuringTraining;
  if (is_final) {
    print(logging::evaluation_size_line(whole_split ? data->size(split)
                                                    : options.length.eval_iters * batch_size));
  }
  std::vector<MicroBatchLoss> all;
  for (int64_t done = 0; done < most; done += at_once) {
    if (is_final) {
      print(logging::evaluation_progress_line(done / at_once + 1, (most + at_once - 1) / at_once));
    }
    // A full validation can take longer than the time between the signal and the kill.
    MEG_RETURN_IF_ERROR(agree_on_ending());
    if (ending.is_due()) return std::optional<double>();
    MEG_ASSIGN_OR_RETURN(
        const std::vector<MicroBatchLoss> losses,
        forward_only(
            *model, [&] { return data->next(split); }, std::clamp<int64_t>(own - done, 0, at_once),
            ranks, options.microbatch_group_size_per_vp_stage, std::min(at_once, most - done)));
    MEG_RETURN_IF_ERROR(check_finite(losses).with_prefix("evaluation"));
    all.insert(all.end(), losses.begin(), losses.end());
  }
  return std::optional(reported(all));
}

Status Trainer::State::evaluate_and_print(samples::Split split, logging::Evaluation kind) {
  if (!data->has(split)) return {};
  MEG_ASSIGN_OR_RETURN(
      const std::optional<double> loss,
      advised(report->timers().measure("evaluate", 0, [&] { return evaluate(split, kind); })));
  report->times({"evaluate"});
  if (!loss.has_value()) {
    print(fmt::format("Exiting during evaluation, {}",
                      ending.time_is_up ? "timelimit reached" : "signal received"));
    return {};
  }
  report->evaluation(kind, progress.iteration, progress.consumed_train_samples, named_loss(*loss));
  if (on_evaluation) {
    on_evaluation({.iteration = progress.iteration, .kind = kind, .lm_loss = *loss});
  }
  report->leave_out_time();
  return {};
}

bool Trainer::State::evaluation_is_due() const {
  const samples::RunLength& length = options.length;
  return length.eval_interval != 0 && progress.iteration % length.eval_interval == 0 &&
         progress.iteration >= length.start_eval_at_iter.value_or(0);
}

}  // namespace meg::train
