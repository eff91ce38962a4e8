#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/tokenizer/tokenizer.h"
#include "tools/common/flags.h"
#include "tools/common/tokenizer_flags.h"

namespace meg::tools {

/// What every program that uses a trained model is told.
struct InferenceFlags {
  megatron::ArgumentValues args;  ///< Megatron's.
  std::string device = "auto";    ///< Own: auto, cpu or cuda.

  // What finish_inference_flags reads from args.
  std::string load;
  std::optional<int64_t> ckpt_step;  ///< Else the iteration that the tracker names.
  bool use_checkpoint_args = false;
  std::optional<int64_t> sequence_length;   ///< Else what the model has positions for.
  std::optional<int64_t> micro_batch_size;  ///< Sequences at once; else as many as pay.
  int64_t seed = 1234;
  tokenizer::TokenizerOptions tokenizer = default_tokenizer();
};

/// Declares them all, after the program's own. family: of the flags that such a program of Megatron
/// has beside those of training.
void declare_inference_flags(Flags& flags, megatron::ArgumentFamily family,
                             InferenceFlags& inference);

/// Fills the rest of InferenceFlags, after Flags::parse. kInvalidArgument for flags that do not go
/// together: wrong usage.
Status finish_inference_flags(InferenceFlags& inference);

/// A trained model that is ready to be used, and how text becomes its tokens.
struct LoadedModel {
  nn::GptModel model;  ///< Whole, in evaluation mode: no dropout.
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
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
/// Errors: kInvalidArgument where flags contradict the checkpoint, or the checkpoint asks for what
/// no module does, with every arg in which they differ; where the tokenizer is not the one of the
/// checkpoint; where a sequence is longer than the positions reach; kUnsupported under a launcher
/// that started more ranks than one; what opening and reading give.
Result<LoadedModel> load_inference_model(const InferenceFlags& inference);

}  // namespace meg::tools
