#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>

#include "libmeg/nn/auxiliary_losses.h"
#include "libmeg/nn/layers/cached_attention.h"
#include "libmeg/nn/layers/internal/rotary_embedding.h"
#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// Shared by all layers of one forward pass.
struct ForwardContext {
  bool training = false;           ///< Whether dropout is active.
  RandomStates* random = nullptr;  ///< The model's generators.
  /// The generator for dropout of hidden states: each rank draws its own numbers if it has its own
  /// part of the sequences.
  RandomStates::Stream hidden_stream = RandomStates::Stream::kDataParallel;
  /// [b or 1, 1, s, s] bool. In backends with a separate softmax, true hides a score; in the
  /// others, true keeps it. Undefined: causal.
  at::Tensor attention_mask;
  /// GptInput::document_lengths, if samples have several and the backend has no mask; on the CPU.
  at::Tensor document_lengths;
  RotaryTables rotary;
  at::Tensor rows;                   ///< GptInput::rows.
  const CacheStep* cache = nullptr;  ///< Set if keys and values of earlier tokens are cached.
  AuxiliaryLosses* auxiliary_losses = nullptr;  ///< The model's.
  /// The model's function, called by each module that has parameters of its own; see
  /// GptModel::before_use.
  const std::function<void(size_t end)>* before_use = nullptr;

  void use_parameters(size_t end) const {
    if (before_use != nullptr && *before_use) (*before_use)(end);
  }
};

}  // namespace meg::nn
