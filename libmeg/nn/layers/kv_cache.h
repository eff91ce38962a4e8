#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/nn/gpt_options.h"

namespace meg::nn {

class DecodeGraphs;

/// The keys and values of sequences that a model continues. Each sequence has a slot and a length
/// of its own, so that a batch needs no padding and a slot can be reused at any time. Mirrors
/// Megatron-LM megatron/core/inference_params.py, where all sequences have one length.
class KvCache {
 public:
  /// Creates a cache for a model, or part of one, with these options. capacity: tokens per slot. On
  /// a CPU, memory is used only once a slot is written. kInvalidArgument for sizes below 1;
  /// kResourceExhausted.
  static Result<KvCache> create(const model::GptConfig& config, const GptOptions& options,
                                const ModelPart& part, int64_t slots, int64_t capacity);

  KvCache(KvCache&& other) noexcept;
  KvCache& operator=(KvCache&& other) noexcept;
  ~KvCache();

  int64_t slots() const { return static_cast<int64_t>(lengths_.size()); }

  int64_t capacity() const { return capacity_; }

  /// Tokens that a slot holds.
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }

  /// Drops a slot's tokens from `length` on, which must not exceed its length; 0 empties the slot.
  void cut(int64_t slot, int64_t length) { lengths_[static_cast<size_t>(slot)] = length; }

  /// Makes the first `length` tokens of a slot those of another one, and all that it holds; the
  /// other one has held as many, and nothing was written over them since. Or the slot's own.
  Status copy_prefix(int64_t source, int64_t slot, int64_t length);

  /// Copies slot sources[i] to slot i, for all i below sources.size().
  Status rearrange(std::span<const int64_t> sources);

  /// [slots, g, capacity, hn] in the parameters' type. layer: its number in the whole model.
  const at::Tensor& keys(int64_t layer) const { return keys_[index(layer)]; }

  const at::Tensor& values(int64_t layer) const { return values_[index(layer)]; }

  /// Adds tokens that all layers have written to a slot's length.
  void extend(int64_t slot, int64_t count) { lengths_[static_cast<size_t>(slot)] += count; }

  /// Recorded passes over these keys and values; nullptr on a CPU.
  DecodeGraphs* graphs() { return graphs_.get(); }

 private:
  KvCache(int64_t first_layer, int64_t slots, int64_t capacity);

  size_t index(int64_t layer) const { return static_cast<size_t>(layer - first_layer_); }

  std::vector<at::Tensor> keys_, values_;  ///< One per layer of this part.
  int64_t first_layer_;
  int64_t capacity_;
  std::vector<int64_t> lengths_;  ///< One per slot.
  std::unique_ptr<DecodeGraphs> graphs_;
};

}  // namespace meg::nn
