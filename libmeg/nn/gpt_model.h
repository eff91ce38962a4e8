#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/nn/auxiliary_losses.h"
#include "libmeg/nn/gpt_options.h"
#include "libmeg/nn/layers/cached_attention.h"
#include "libmeg/nn/layers/kv_cache.h"
#include "libmeg/nn/parameter_store.h"
#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// The inputs of a forward pass, on the model's device. b: samples, s: tokens per sample.
struct GptInput {
  at::Tensor tokens = {};        ///< [b, s] int64, below padded_vocab_size. First stage.
  at::Tensor position_ids = {};  ///< [b or 1, s] int64; undefined: 0 to s - 1. First stage.
  /// [b or 1, 1, s, s] bool, true where the third dimension's token does not attend to the
  /// fourth's. Undefined: the causal mask, which the fast attention applies without a tensor.
  at::Tensor attention_mask = {};
  at::Tensor hidden_states = {};  ///< [b, s, h], from the previous stage. Later stages.
  /// [n] int64 below b * s: the tokens whose hidden states are needed. The result then is [1, n,
  /// h], and the last layer computes no others. Undefined: all. Last stage.
  at::Tensor rows = {};
  /// [n] int64, on the CPU: lengths of the documents of the samples, one after another and none in
  /// two samples. Tokens attend to their own document only, which takes no memory for a mask.
  /// Undefined: each sample is one. Not with attention_mask.
  at::Tensor document_lengths = {};
};

/// New tokens of cached sequences, one sequence after another, T in total. On the model's device.
struct CachedInput {
  at::Tensor tokens = {};         ///< [T] int64. First stage.
  at::Tensor hidden_states = {};  ///< [1, T, h], from the previous stage. Later stages.
  /// The sequences to which the tokens belong, each slot once; their counts sum to T.
  std::span<const CachedTokens> sequences;
};

/// A GPT model, or the part of one that a pipeline stage holds. Hidden states are [b, s, h] (in
/// Megatron [s, b, h]), because attention kernels write that layout and labels and losses are [b,
/// s], so that nothing has to be transposed.
///
/// A model is used by one thread. It must outlive the backward passes of what it returned. Dropout
/// and recomputation are active in training mode (set_training); LibTorch's grad mode decides
/// whether gradients are recorded.
/// Mirrors Megatron-LM megatron/core/models/gpt/gpt_model.py and Float16Module around it.
class GptModel {
 public:
  /// Allocates the parameters, whose values are undefined until initialise_weights or load_weights.
  /// Errors: those of GptOptions::check; kInvalidArgument if sizes cannot be divided;
  /// kUnsupported for biases of experts that ranks split; kResourceExhausted.
  static Result<GptModel> create(const model::GptConfig& config, const GptOptions& options,
                                 const ModelPart& part = {});

  GptModel(GptModel&&) noexcept;
  GptModel& operator=(GptModel&&) noexcept;
  ~GptModel();

  const model::GptConfig& config() const;
  const GptOptions& options() const;
  const ModelPart& part() const;

  /// Returns them in the order of options().family's named_parameters(). A tied output layer is the
  /// embedding, except that the last of several stages has a copy.
  std::span<const GptParameter> parameters() const;

  /// Those of its routers. Passes with gradients count the tokens of each expert; the caller moves
  /// the biases (move_expert_biases), which resets the counts.
  std::span<const ExpertBias> expert_biases() const;

  /// Elements of all parameters.
  int64_t parameter_count() const;

  /// New models are in training mode.
  void set_training(bool training);

  /// The generators of dropout.
  RandomStates& random_states();

  /// Draws from these generators from now on: those of another part of the model in the same
  /// process.
  void share_random_states(const RandomStates& states);

  /// Sets a function that is called in each forward pass and recomputation before parameters are
  /// used: those about to be used are among the first `end` of parameters(). It may throw, which
  /// ends the pass. Empty: none.
  void before_use(std::function<void(size_t end)> told);

  /// The losses of its routers (MoeOptions) in passes with gradients. The caller sets the scale
  /// before a pass, and takes the sums.
  AuxiliaryLosses& auxiliary_losses();

  /// Errors of the functions below: kInvalidArgument for tensors of other shapes and types,
  /// kOutOfRange for tokens, labels and positions outside their tables (CPU only: for a GPU the
  /// caller checks its data beforehand), kResourceExhausted if memory is insufficient.

  /// The hidden states that this part computes, [b, s, h] in the parameters' dtype: the input of
  /// the next stage, or, in the last part, the output of the final norm. If sequences are split,
  /// this rank's part of them.
  Result<at::Tensor> hidden_states(const GptInput& input);

  /// The hidden states of new tokens of sequences whose earlier tokens are in the cache, [1, T, h];
  /// adds the new ones to the cache. A token's position is its place in its sequence. No dropout
  /// and no gradients, in any mode. On a CPU, if each sequence has one new token, its result does
  /// not depend on the other sequences, bit for bit. Also kInvalidArgument if a slot occurs twice,
  /// kOutOfRange if one is full.
  Result<at::Tensor> hidden_states(const CachedInput& input, KvCache& cache);

  /// The logits, [b, s, v] fp32 over the padded vocabulary, unchecked: to generate and to score,
  /// use logits_of(). Last part only. Every tensor-parallel rank gets all of them, without autograd
  /// history.
  Result<at::Tensor> logits(const GptInput& input);

  /// Applies only the output layer, to complete rows of hidden_states(): [n, h] -> [n, v] fp32, as
  /// in logits(), but a row begins with NaN if any of its first vocab_size logits is NaN or
  /// infinite, so that no result of it passes for one: its maximum, the log probabilities of all
  /// its tokens and its first element are NaN, see not_finite_logits(). Last part only.
  Result<at::Tensor> logits_of(const at::Tensor& hidden_rows, int64_t vocab_size);

  /// Loss of each token, [b, s] fp32. labels: [b, s] int64, below padded_vocab_size. Last part
  /// only. Its backward pass can run once, because it overwrites the logits. Without autograd
  /// history if other tensor-parallel ranks share the part.
  Result<at::Tensor> loss(const GptInput& input, const at::Tensor& labels);

  /// The result of loss(), without autograd history: the gradients of sum(losses * grad_losses) are
  /// added to the parameters' grad() at once, in a single pass over the logits, with the same bits
  /// as by a backward pass from loss(). grad_losses: [b, s] fp32. Must be called in LibTorch's grad
  /// mode.
  Result<at::Tensor> loss_and_gradients(const GptInput& input, const at::Tensor& labels,
                                        const at::Tensor& grad_losses);

  /// [1] int32 on the model's device: 1 once a GPU has met a label outside the vocabulary, whose
  /// loss is NaN; otherwise 0. Read it together with the losses, because reading waits for the GPU.
  /// Undefined unless the part is the last.
  const at::Tensor& label_error() const;

 private:
  struct State;
  explicit GptModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The error of a row of logits that GptModel::logits_of() has marked.
Status not_finite_logits();

}  // namespace meg::nn
