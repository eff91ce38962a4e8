#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::app {

/// Which trained model to load, and how it computes.
struct ModelRequest {
  megatron::ArgumentValues args;     ///< Megatron's; missing ones are the checkpoint's.
  std::string device = "auto";       ///< auto, cpu or cuda.
  std::string load;                  ///< The checkpoint.
  std::optional<int64_t> ckpt_step;  ///< Else the iteration that the tracker names.
  bool use_checkpoint_args = false;
  std::optional<int64_t> sequence_length;  ///< nullopt: the model's positions.
  tokenizer::TokenizerOptions tokenizer;
  std::string tokenizer_origin;  ///< TokenizerOrigin::of_checkpoint.
  bool allow_other_tokenizer =
      false;  ///< Accepts another tokenizer than that of the training data.
};

/// A trained model that is ready for use, with its tokenizer.
struct LoadedModel {
  nn::GptModel model;  ///< This rank's part, in evaluation mode: no dropout.
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::optional<int64_t> iteration;  ///< What the checkpoint was saved at.
  std::string layout;                ///< Of the checkpoint: "torch, tensor 2, pipeline 2".
  /// --seq-length, else max_position_embeddings: the most tokens that go in at once.
  int64_t sequence_length = 0;
};

/// Opens the tokenizer, then the checkpoint, whatever its layout.
///
/// What args do not say about the model comes from the checkpoint where --use-checkpoint-args
/// is given, and also where no argument gives the model a shape; else they mean Megatron's
/// defaults, as in its own programs. How it computes (GELU's form, epsilons, rotary positions)
/// comes from the checkpoint unless flags set it. The padding of the vocabulary and the number of
/// positions are the checkpoint's, too, unless flags give them.
///
/// Errors: kInvalidArgument where flags contradict the checkpoint, or the checkpoint asks for what
/// no module does, with every arg in which they differ; where the tokenizer is not the one of the
/// checkpoint; where a sequence is longer than the positions reach; where the ranks' tensor- and
/// pipeline-parallel sizes do not divide the model; what opening and reading give.
/// ranks: those that hold its parts. opened: the checkpoint, where open_weights() has opened it
/// with args' given_lookup(); may be null.
Result<LoadedModel> load_model(
    const ModelRequest& request, const parallel::ParallelState& ranks = {},
    std::shared_ptr<const checkpoint::MegatronCheckpoint> opened = nullptr);

}  // namespace meg::app
