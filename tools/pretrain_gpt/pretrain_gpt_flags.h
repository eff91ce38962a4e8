#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/train/trainer.h"
#include "tools/common/flag_groups/data_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/ranks.h"

namespace meg::tools {

/// The command line of pretrain_gpt.
struct PretrainFlags {
  megatron::ArgumentValues args;  ///< Megatron's.
  DataFlags data;
  std::string device = "auto";                ///< Own: auto, cpu or cuda.
  std::optional<std::string> names;           ///< Own: --target-names {mcore,hybrid,legacy}.
  std::optional<std::string> trace_schedule;  ///< Own: --trace-schedule FILE.
  bool print_arguments = false;               ///< Own: --print-arguments.
  /// Fields that the given revision of Megatron does not use; they have their defaults.
  std::vector<std::string> unused_fields;
  bool is_hybrid = false;  ///< Whether a hybrid layer pattern gave the layers; args are GPT's.
  std::string settings;    ///< Flags::settings(), which ranks compare.
  std::string tokenizer_origin;  ///< app::TokenizerOrigin::of_checkpoint.
  /// Set before the flags are declared: a command line that describes no model means the run in the
  /// args of --load.
  bool may_be_of_checkpoint = false;
};

/// Declares every flag of the trainer.
void declare_pretrain_flags(Flags& flags, PretrainFlags& pretrain);

/// What the trainer knows of the tokenizer.
struct Vocabulary {
  int64_t vocab_size = 0;         ///< Tokens.
  int64_t padded_vocab_size = 0;  ///< Rows of the embedding.
  int64_t eod = 0;                ///< The token that ends a document.
  std::optional<int64_t> pad;     ///< From tokenizer::pad_of_datasets().
};

/// This rank's share of the run that a command line asks for, after Flags::parse and
/// finish_pretrain_flags. kInvalidArgument for wrong usage, kUnsupported for what is not done yet,
/// by name.
Result<train::TrainerOptions> resolve_pretrain_flags(const PretrainFlags& pretrain,
                                                     const Vocabulary& vocabulary,
                                                     const parallel::ParallelState& ranks = {});

/// How ranks share experts: the sizes of a model without them are those of the others.
/// kInvalidArgument for a size above 1 then.
Result<ExpertRankFlags> expert_ranks_of(const PretrainFlags& pretrain);

/// Called by all ranks: kInvalidArgument where one of them has other flags than the first;
/// kUnsupported for what several ranks do not do yet.
Status check_ranks(const PretrainFlags& pretrain, const parallel::ParallelState& ranks);

/// Completes what `flags` parsed: the model's arguments from --load where --use-checkpoint-args is
/// given, and DataFlags from args. Errors: those of the fields' values and of opening --load.
Status finish_pretrain_flags(const Flags& flags, PretrainFlags& pretrain);

}  // namespace meg::tools
