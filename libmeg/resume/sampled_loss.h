#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/train/streamed_losses.h"

namespace meg::resume {

/// The loss of a batch, estimated from some of its sequences.
struct SampledLoss {
  /// Of a comparison of a healthy run; with losses that are spread about normally.
  static constexpr double kConfidence = 0.9999;

  int64_t samples = 0;        ///< Sequences that were computed.
  int64_t batch_size = 0;     ///< Sequences that the logged loss is about.
  double mean = 0;            ///< Over tokens.
  double standard_error = 0;  ///< Of the mean; 0 if it is that of the whole batch.
  /// What the mean may be from that of the batch with kConfidence. Not less than it would be if
  /// losses of sequences had a standard deviation of a fifth of their mean, since few of them may
  /// be alike by chance.
  double margin = 0;
};

/// losses: at least two, or all of the batch, with at least one kept token.
SampledLoss sampled_loss(std::span<const train::SampleLoss> losses, int64_t batch_size);

/// `count` of 0 to batch_size - 1, ascending, drawn without repetition. Batches of blends repeat
/// their datasets at fixed distances, so that evenly spaced sequences could be of one of them.
std::vector<int64_t> drawn_positions(int64_t count, int64_t batch_size, uint64_t seed);

}  // namespace meg::resume
