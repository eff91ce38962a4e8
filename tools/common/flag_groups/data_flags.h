#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/samples/data_run.h"
#include "libmeg/samples/gpt_sample.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The flags of a training command line that say which samples a run sees, in which batches, and
/// the tokenizer that its caches are named by.
struct DataFlags : samples::DataArgs {
  tokenizer::TokenizerOptions tokenizer = default_tokenizer();
};

/// Megatron's arguments among them, by their fields.
void read_data_args(megatron::FieldReader& args, DataFlags& data);

/// Declares those that are libmeg's own: --samples, --megatron-version, --no-extra-token,
/// --no-drop-last-partial-validation-sequence, and prepare_cache's --prepare-cache-world-size.
void declare_own_data_flags(Flags& flags, DataFlags& data);

/// Declares the whole command line of a training run, after the program's own flags, for a program
/// that only uses its samples.
void declare_data_flags(Flags& flags, DataFlags& data, megatron::ArgumentValues& args);

/// The tokenizer's part, with the revision to follow. kInvalidArgument for an unknown revision.
Result<tokenizer::TokenizerOptions> tokenizer_options(const DataFlags& data);

/// Fills Megatron's part of `data`, after Flags::parse. kInvalidArgument: wrong usage.
Status finish_data_flags(const megatron::ArgumentValues& args, DataFlags& data);

/// Resolves the flags; waits for caches that other processes build until the user interrupts it.
/// Errors: those of samples::resolve_data, of identifying the tokenizer, and kInvalidArgument where
/// a dataset was made with another one.
Result<samples::DataRun> resolve_data_flags(
    const DataFlags& data, const std::optional<std::string>& environment_world_size);

/// How texts of the run become samples. eod: of the tokenizer, -1 where it has none; pad: from
/// tokenizer::pad_of_datasets().
samples::GptSampleOptions sample_options(const DataFlags& data, const samples::DataRun& run,
                                         int64_t eod, std::optional<int64_t> pad);

/// WORLD_SIZE of this process's environment.
std::optional<std::string> environment_world_size();

}  // namespace meg::tools
