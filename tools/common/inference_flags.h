#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libmeg/core/result.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/tokenizer/tokenizer.h"
#include "tools/common/flags.h"
#include "tools/common/model_flags.h"
#include "tools/common/tokenizer_flags.h"

namespace meg::tools {

/// What every program that uses a trained model is told.
struct InferenceFlags {
  std::string load;
  bool use_checkpoint_args = false;
  ModelFlags model;
  std::optional<int64_t> sequence_length;  ///< Else what the model has positions for.
  std::optional<double> layernorm_epsilon, rotary_base, rotary_percent;
  bool rotary_interleaved = false;

  TokenizerOptions tokenizer = default_tokenizer();

  bool fp16 = false, bf16 = false;  ///< Else fp32: 16-bit weights widen.
  std::string device = "auto";
  std::string attention_backend = "auto";
  bool no_bias_gelu_fusion = false;
  bool attention_softmax_in_fp32 = false;
  bool apply_query_key_layer_scaling = false;
  std::optional<int64_t> micro_batch_size;
  int64_t seed = 1234;
};

/// Declares them all.
void declare_inference_flags(Flags& flags, InferenceFlags& inference);

/// Every other flag of Megatron's programs is taken. To be called after all flags are declared.
void declare_other_inference_flags(Flags& flags);

/// kInvalidArgument for flags that do not go together: wrong usage.
Status check_inference_flags(const InferenceFlags& inference);

/// A trained model that is ready to be used, and how text becomes its tokens.
struct LoadedModel {
  nn::GptModel model;  ///< Whole, in evaluation mode: no dropout.
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<int64_t> iteration;  ///< What the checkpoint was saved at.
  /// --seq-length, else max_position_embeddings: the most tokens that go in at once.
  int64_t sequence_length = 0;
};

/// Opens the tokenizer, then the checkpoint, however its ranks lie.
///
/// What the flags do not say about the model comes from the checkpoint where --use-checkpoint-args
/// is given, and also where no flag gives the model a shape; else they mean Megatron's defaults, as
/// in its own programs. How it computes (GELU's form, epsilons, rotary positions) comes from the
/// checkpoint where no flag says it. The padding of the vocabulary and the number of positions are
/// the checkpoint's, too, unless flags give them.
///
/// Errors: kInvalidArgument where flags contradict the checkpoint, with every arg in which they
/// differ; where the tokenizer is not the one of the checkpoint; where a sequence is longer than
/// the positions reach; what opening and reading give.
Result<LoadedModel> load_inference_model(const InferenceFlags& inference);

}  // namespace meg::tools
