#pragma once

#include <string_view>

namespace meg::logging {

/// What a figure of a step is called in a line of a log and as a TensorBoard curve. An empty name:
/// it is not there.
struct FigureName {
  std::string_view label;
  std::string_view tag;
};

/// Those of Megatron-LM megatron/training/training.py: training_log, which TrainingLog and
/// write_iteration write and read_log and read_tensorboard_log read. Losses have names of their
/// own.
namespace figure_names {

inline constexpr FigureName kConsumedSamples = {"consumed samples", ""};
inline constexpr FigureName kSkippedSamples = {"skipped samples", "skipped-train-samples"};
/// Milliseconds in a line, seconds on the curve.
inline constexpr FigureName kElapsedTime = {"elapsed time per iteration (ms)", "iteration-time"};
inline constexpr FigureName kThroughput = {"throughput per GPU (TFLOP/s/GPU)", "throughput"};
inline constexpr FigureName kLearningRate = {"learning rate", "learning-rate"};
inline constexpr FigureName kBatchSize = {"global batch size", "batch-size"};
inline constexpr FigureName kLossScale = {"loss scale", "loss-scale"};
inline constexpr FigureName kGradNorm = {"grad norm", "grad-norm"};
inline constexpr FigureName kNumZeros = {"num zeros", "num-zeros"};
inline constexpr FigureName kParamsNorm = {"params norm", "params-norm"};
inline constexpr FigureName kSkippedIterations = {"number of skipped iterations", ""};
inline constexpr FigureName kNanIterations = {"number of nan iterations", ""};

}  // namespace figure_names

/// Ends the names of curves over samples instead of iterations.
inline constexpr std::string_view kVersusSamples = " vs samples";
/// Ends the names of a loss's curve over evaluations.
inline constexpr std::string_view kOfValidation = " validation";

}  // namespace meg::logging
