#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/nn/gpt_options.h"
#include "libmeg/nn/layers/cached_attention.h"
#include "libmeg/nn/layers/kv_cache.h"
#include "libmeg/nn/parameter_store.h"
#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// The inputs of a forward pass, all on the model's device. b: samples, s: tokens per sample.
struct GptInput {
  at::Tensor tokens = {};        ///< [b, s] int64, below padded_vocab_size. First stage.
  at::Tensor position_ids = {};  ///< [b or 1, s] int64; undefined: 0 to s - 1. First stage.
  /// [b or 1, 1, s, s] bool, true where the third dimension's token does not see the fourth's;
  /// undefined: those behind it, which the fast attention knows without a mask.
  at::Tensor attention_mask = {};
  at::Tensor hidden_states = {};  ///< [b, s, h], what the stage before returned. Later stages.
  /// [n] int64 below b * s: the tokens whose hidden states are needed, which become [1, n, h]; the
  /// last layer then computes no others. Undefined: all. Last stage.
  at::Tensor rows = {};
};

/// New tokens of cached sequences, one sequence after the other; T in all. On the model's device.
struct CachedInput {
  at::Tensor tokens = {};         ///< [T] int64. First stage.
  at::Tensor hidden_states = {};  ///< [1, T, h], what the stage before returned. Later stages.
  /// Whose they are, each slot once; their counts are T together.
  std::span<const CachedTokens> sequences;
};

/// A GPT model, or the part of one that a pipeline stage holds. Hidden states lie [b, s, h]
/// (Megatron: [s, b, h]): the attention kernels write that, and labels and losses are [b, s]
/// anyway, so that nothing is transposed on the way.
///
/// A model is used by one thread. It must outlive the backward passes of what it returned. In
/// training mode (set_training) dropout drops and recomputation happens; whether gradients are
/// recorded is LibTorch's grad mode.
/// Mirrors Megatron-LM megatron/core/models/gpt/gpt_model.py and Float16Module around it.
class GptModel {
 public:
  /// Allocates the parameters, whose values are undefined until initialise_weights or load_weights.
  /// Errors: those of GptOptions::check; kInvalidArgument where sizes do not divide;
  /// kUnsupported for experts; kResourceExhausted.
  static Result<GptModel> create(const model::GptConfig& config, const GptOptions& options,
                                 const ModelPart& part = {});

  GptModel(GptModel&&) noexcept;
  GptModel& operator=(GptModel&&) noexcept;
  ~GptModel();

  const model::GptConfig& config() const;
  const GptOptions& options() const;
  const ModelPart& part() const;

  /// In the order of options().family's named_parameters(). A tied output layer is the embedding,
  /// except that the last of several stages has a copy.
  std::span<const GptParameter> parameters() const;

  /// Elements of all parameters.
  int64_t parameter_count() const;

  /// New models are in training mode.
  void set_training(bool training);

  /// What dropout draws from.
  RandomStates& random_states();

  /// Draws from these from here on: those of another part of the model that its process holds.
  void share_random_states(const RandomStates& states);

  /// From here on called in each forward pass, and where a layer is recomputed, before parameters
  /// are used: all that are about to be are among the first `end` of parameters(). May throw, which
  /// ends the pass. Empty: nothing is called.
  void before_use(std::function<void(size_t end)> told);

  /// Errors of the functions below: kInvalidArgument for tensors of other shapes and types,
  /// kOutOfRange for tokens, labels and positions outside their tables (CPU only: on a GPU the
  /// caller looks at its data before), kResourceExhausted where memory does not suffice.

  /// The hidden states that this part computes, [b, s, h] in the parameters' type; if sequences are
  /// split, this rank's part of them; after the final norm if the part is the last. They are the
  /// input of the next stage.
  Result<at::Tensor> hidden_states(const GptInput& input);

  /// The hidden states of new tokens of sequences whose earlier ones are in the cache, [1, T, h];
  /// the cache then holds the new ones, too. Each token has the position of its place in its
  /// sequence. Without dropout and gradients, in any mode. On a CPU a sequence's result does not
  /// depend on the others of the call where each has one new token, bit for bit. Also
  /// kInvalidArgument where a slot is named twice, kOutOfRange where one has no room.
  Result<at::Tensor> hidden_states(const CachedInput& input, KvCache& cache);

  /// [b, s, v] fp32 over the padded vocabulary. Only where the part is the last; tensor-parallel
  /// ranks each get all of it, without a history.
  Result<at::Tensor> logits(const GptInput& input);

  /// The output layer alone, on rows of hidden_states(), which are whole: [n, h] -> [n, v] fp32 as
  /// logits(). Only where the part is the last.
  Result<at::Tensor> logits_of(const at::Tensor& hidden_rows);

  /// Loss of each token, [b, s] fp32. labels: [b, s] int64, below padded_vocab_size. Only where the
  /// part is the last. Its backward pass runs once: it overwrites the logits. Without a history
  /// where other tensor-parallel ranks share the part.
  Result<at::Tensor> loss(const GptInput& input, const at::Tensor& labels);

  /// What loss() returns, without a history: the gradients of sum(losses * grad_losses) are added
  /// to the parameters' grad() at once, in one visit to the logits; the same bits as by a backward
  /// pass from loss(). grad_losses: [b, s] fp32. To be called in LibTorch's grad mode.
  Result<at::Tensor> loss_and_gradients(const GptInput& input, const at::Tensor& labels,
                                        const at::Tensor& grad_losses);

  /// [1] int32 on the model's device: 1 from when a loss was asked of a label outside the
  /// vocabulary on a GPU, whose loss is NaN; else 0. To be read with the losses, as reading waits
  /// for the GPU. Undefined where the part is not the last.
  const at::Tensor& label_error() const;

 private:
  struct State;
  explicit GptModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meg::nn
