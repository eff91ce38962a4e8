#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/train/internal/not_finite.h"
#include "libmeg/train/internal/trainer_state.h"

// One iteration: the batch size that is due, forward and backward, the optimizer, then what is
// counted and logged. Mirrors Megatron-LM megatron/training/training.py: train_step,
// training_log and, for --iterations-to-skip, dummy_train_step.

namespace meg::train {

Status Trainer::State::check_finite(const std::vector<MicroBatchLoss>& losses) const {
  if (!optimizer->checks_for_nan()) return {};
  const int data_parallel_size = ranks.data()->size();
  for (size_t i = 0; i < losses.size(); ++i) {
    const double loss = losses[i].loss_sum;
    if (std::isfinite(loss)) continue;
    if (data_parallel_size == 1) return not_finite_error("loss", std::isnan(loss));
    const size_t rank = i * static_cast<size_t>(data_parallel_size) / losses.size();
    return not_finite_error(fmt::format("loss of data-parallel rank {}", rank), std::isnan(loss));
  }
  return {};
}

Result<logging::Losses> Trainer::State::take_auxiliary_losses(int64_t micro_batches) {
  const nn::MoeOptions& moe = options.model.moe;
  logging::Losses losses;
  if (options.config.num_moe_layers() == 0) return losses;
  if (moe.z_loss_coeff.has_value()) losses.emplace_back("z_loss", 0.0F);
  for (const nn::BalancingLoss& loss : moe.balancing_losses) {
    losses.emplace_back(loss.log_name(), 0.0F);
  }
  if (losses.empty()) return losses;
  // Each stage has those of its layers, and each tensor-parallel rank those of its part of the
  // sequences: they are summed over these, and averaged over copies.
  std::vector<double> sums(losses.size());
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    for (int64_t chunk = 0; chunk < model->size(); ++chunk) {
      for (const auto& [name, sum] : std::exchange((*model)[chunk].auxiliary_losses().sums, {})) {
        for (size_t i = 0; i < losses.size(); ++i) {
          if (losses[i].first == name) sums[i] += sum.item<double>();
        }
      }
    }
    return Status();
  }));
  MEG_ASSIGN_OR_RETURN(sums, parallel::gather(*ranks.pipeline(), std::move(sums)));
  MEG_ASSIGN_OR_RETURN(sums, parallel::gather(*ranks.tensor(), std::move(sums)));
  MEG_ASSIGN_OR_RETURN(sums, parallel::gather(*ranks.data(), std::move(sums)));
  const double parts = static_cast<double>(options.config.num_moe_layers() * micro_batches) *
                       static_cast<double>(ranks.data()->size());
  for (size_t i = 0; i < sums.size(); ++i) {
    losses[i % losses.size()].second += static_cast<float>(sums[i] / parts);
  }
  return losses;
}

Result<StepReport> Trainer::State::compute_step(int64_t batch_size) {
  StepReport step;
  // Read before the step, which may change the scale: these are the values that the step was
  // computed with.
  step.iteration = progress.iteration + 1;
  step.loss_scale = optimizer->loss_scale();
  step.lr = scheduler->lr();
  step.weight_decay = scheduler->weight_decay();
  Timers& timers = report->timers();
  ScheduleTrace* const step_trace = trace.has_value() ? &*trace : nullptr;
  if (trace.has_value()) trace->begin_step();
  const auto next = [&] {
    return timers.measure("batch-generator", 2,
                          [this] { return data->next(samples::Split::kTrain); });
  };
  MEG_ASSIGN_OR_RETURN(
      const std::vector<MicroBatchLoss> losses, timers.measure("forward-backward", 1, [&] {
        return forward_backward(*model, *optimizer, next,
                                micro_batches_of(batch_size, samples::Split::kTrain),
                                options.calculate_per_token_loss ? StepLoss::kMeanOfTokens
                                                                 : StepLoss::kMeanOfMicroBatches,
                                ranks, options.microbatch_group_size_per_vp_stage, step_trace);
      }));
  for (const MicroBatchLoss& loss : losses) step.micro_losses.push_back(loss.mean());
  step.lm_loss = reported(losses);
  MEG_ASSIGN_OR_RETURN(step.auxiliary_losses,
                       take_auxiliary_losses(micro_batches_of(batch_size, samples::Split::kTrain)));
  // Check before the optimizer: a loss that is not finite is named as such, not as the first
  // gradient that it spoiled.
  MEG_RETURN_IF_ERROR(check_finite(losses));
  const Optimizer::Rates rates = {
      .lr = step.lr, .weight_decay = step.weight_decay, .decoupled_lr = scheduler->decoupled_lr()};
  MEG_ASSIGN_OR_RETURN(step.outcome, timers.measure("optimizer", 1, [&] {
    return traced(step_trace, "optimizer", nullptr, [&] { return optimizer->step(rates); });
  }));
  if (trace.has_value()) trace->end_step();
  return step;
}

Status Trainer::State::train_step() {
  const int64_t batch_size =
      options.batch_schedule.batch_size_after(progress.consumed_train_samples);
  Result<StepReport> computed = advised(compute_step(batch_size));
  if (!computed.has_value()) {
    return computed.error().with_prefix(fmt::format("iteration {}", progress.iteration + 1));
  }
  StepReport& step = *computed;
  // A skipped step does not move the schedule, but its samples are consumed: the next step reads
  // others. As in Megatron.
  if (!step.outcome.skipped) scheduler->step(batch_size);
  progress.iteration += 1;
  progress.consumed_train_samples += batch_size;
  progress.floating_point_operations +=
      logging::num_floating_point_operations(options.config, batch_size);
  return report_step(step, batch_size);
}

Status Trainer::State::skip_step() {
  const int64_t batch_size =
      options.batch_schedule.batch_size_after(progress.consumed_train_samples);
  // The batches are read and dropped, so that the loader stands where it would after a step.
  for (int64_t i = 0; i < micro_batches_of(batch_size, samples::Split::kTrain); ++i) {
    MEG_RETURN_IF_ERROR(data->next(samples::Split::kTrain).status());
  }
  progress.iteration += 1;
  progress.consumed_train_samples += batch_size;
  progress.skipped_train_samples += batch_size;
  return {};
}

Status Trainer::State::report_step(StepReport& step, int64_t batch_size) {
  logging::IterationFigures& figures = step.figures;
  figures.iteration = progress.iteration;
  figures.train_iters = train_iters;
  figures.consumed_train_samples = progress.consumed_train_samples;
  figures.skipped_train_samples = progress.skipped_train_samples;
  figures.learning_rate = scheduler->lr();
  figures.global_batch_size = batch_size;
  figures.loss_scale = optimizer->loss_scale();
  if (!step.outcome.skipped) figures.grad_norm = step.outcome.grad_norm;
  if (!step.outcome.skipped && step.outcome.num_zeros.has_value()) {
    figures.num_zeros_in_grad = static_cast<double>(*step.outcome.num_zeros);
  }
  if (options.log_params_norm) {
    MEG_ASSIGN_OR_RETURN(figures.params_norm, optimizer->params_norm());
  }
  logging::Losses losses = named_loss(step.lm_loss);
  losses.insert(losses.end(), step.auxiliary_losses.begin(), step.auxiliary_losses.end());
  report->step(figures, losses, step.outcome.skipped);
  if (on_step) on_step(step);
  return {};
}

}  // namespace meg::train
