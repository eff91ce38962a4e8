#include "libmeg/logging/tensorboard_log.h"

#include <algorithm>
#include <string>

#include "libmeg/logging/figure_names.h"

// Tags, and which of them have a second curve over samples, are those of Megatron's training_log:
// dashboards that were made for its runs find the same curves here.

namespace meg::logging {
namespace {

/// Points of one moment, by steps and by samples; the first error is kept.
class Points {
 public:
  Points(TensorboardWriter& writer, int64_t iteration, int64_t samples)
      : writer_(writer), iteration_(iteration), samples_(samples) {}

  void add_at_iteration(std::string_view tag, double value) { write(tag, value, iteration_); }

  void add(std::string_view tag, double value) {
    add_at_iteration(tag, value);
    write(std::string(tag).append(kVersusSamples), value, samples_);
  }

  const Status& status() const { return status_; }

 private:
  void write(std::string_view tag, double value, int64_t step) {
    if (status_.ok()) status_ = writer_.add_scalar(tag, value, step);
  }

  TensorboardWriter& writer_;
  int64_t iteration_;
  int64_t samples_;
  Status status_;
};

}  // namespace

Status write_iteration(TensorboardWriter& writer, const TensorboardCurves& curves,
                       const IterationFigures& figures, const Losses& losses, int64_t world_size) {
  if (figures.iteration % curves.log_interval != 0) return Status();
  Points points(writer, figures.iteration, figures.consumed_train_samples);
  points.add(figure_names::kLearningRate.tag, figures.learning_rate);
  if (figures.skipped_train_samples > 0) {
    // Has no curve over samples in Megatron either.
    points.add_at_iteration(figure_names::kSkippedSamples.tag,
                            static_cast<double>(figures.skipped_train_samples));
  }
  points.add(figure_names::kBatchSize.tag, static_cast<double>(figures.global_batch_size));
  for (const auto& [name, value] : losses) points.add(name, static_cast<double>(value));
  if (curves.loss_scale) points.add(figure_names::kLossScale.tag, figures.loss_scale);
  if (curves.world_size) points.add("world-size", static_cast<double>(world_size));
  if (figures.grad_norm) points.add(figure_names::kGradNorm.tag, *figures.grad_norm);
  if (figures.num_zeros_in_grad)
    points.add(figure_names::kNumZeros.tag, *figures.num_zeros_in_grad);
  if (figures.params_norm) points.add(figure_names::kParamsNorm.tag, *figures.params_norm);
  return points.status();
}

Status write_times(TensorboardWriter& writer, const TensorboardCurves& curves, int64_t iteration,
                   double seconds_per_iteration, std::optional<double> tflops,
                   std::span<const TimerTimes> timers, double normalizer) {
  if (!curves.timers) return Status();
  MEG_RETURN_IF_ERROR(
      writer.add_scalar(figure_names::kElapsedTime.tag, seconds_per_iteration, iteration));
  if (tflops)
    MEG_RETURN_IF_ERROR(writer.add_scalar(figure_names::kThroughput.tag, *tflops, iteration));
  for (const TimerTimes& timer : timers) {
    const auto longest =
        std::max_element(timer.seconds_by_rank.begin(), timer.seconds_by_rank.end());
    // A timer that no rank ran since the last line gets no point rather than a 0.
    if (longest == timer.seconds_by_rank.end() || !(*longest > 0)) continue;
    MEG_RETURN_IF_ERROR(writer.add_scalar(timer.name + "-time", *longest / normalizer, iteration));
  }
  return Status();
}

Status write_validation(TensorboardWriter& writer, const TensorboardCurves& curves,
                        int64_t iteration, int64_t consumed_train_samples, const Losses& losses) {
  Points points(writer, iteration, consumed_train_samples);
  for (const auto& [name, value] : losses) {
    const auto loss = static_cast<double>(value);
    const std::string tag = std::string(name).append(kOfValidation);
    points.add(tag, loss);
    if (curves.validation_ppl) points.add(tag + " ppl", perplexity(loss));
  }
  return points.status();
}

}  // namespace meg::logging
