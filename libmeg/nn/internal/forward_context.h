#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>

#include "libmeg/nn/layers/cached_attention.h"
#include "libmeg/nn/layers/internal/rotary_embedding.h"
#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// What all layers of one forward pass share.
struct ForwardContext {
  bool training = false;           ///< Whether dropout drops.
  RandomStates* random = nullptr;  ///< The model's.
  /// What dropout of hidden states draws from: each rank has its own where it has its own stretch
  /// of the sequences.
  RandomStates::Stream hidden_stream = RandomStates::Stream::kDataParallel;
  /// [b or 1, 1, s, s] bool. For the backends with a softmax of their own true hides a score, for
  /// the others true keeps it. Undefined: causal.
  at::Tensor attention_mask;
  RotaryTable rotary;
  at::Tensor rows;                   ///< GptInput::rows.
  const CacheStep* cache = nullptr;  ///< Set where keys and values of earlier tokens are kept.
  /// The model's, told by each module that has parameters of its own; see GptModel::before_use.
  const std::function<void(size_t end)>* before_use = nullptr;

  void use_parameters(size_t end) const {
    if (before_use != nullptr && *before_use) (*before_use)(end);
  }
};

}  // namespace meg::nn
