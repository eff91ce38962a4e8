#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/megatron/argument_values.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/samples/sample_counts.h"
#include "libmeg/samples/split.h"
#include "tools/common/flags/flags.h"
#include "tools/common/tokenizer_flags.h"

namespace meg::tools {

/// The flags of a training command line that say which samples a run sees, and in which batches.
/// data_run.h says what they add up to.
struct DataFlags {
  std::vector<std::string> data_path;
  samples::PerSplit<std::vector<std::string>> per_split_path;
  std::optional<std::string> data_args_path;
  std::optional<std::string> per_split_data_args_path;
  bool mock_data = false;
  std::optional<std::string> split;  ///< Else "969, 30, 1".
  std::optional<int64_t> sequence_length;
  int64_t seed = 1234;
  std::optional<std::string> cache_path;
  int64_t dataset_builder_threads = 1;
  std::optional<std::string> megatron_version;

  std::optional<std::string> samples;  ///< Own: TRAIN,VALID,TEST.
  bool keep_last_validation_sequence = false;
  bool no_extra_token = false;

  tokenizer::TokenizerOptions tokenizer = default_tokenizer();

  samples::RunLength length;
  std::optional<int64_t> micro_batch_size;
  std::optional<int64_t> global_batch_size;
  std::vector<std::string> rampup_batch_size;
  int64_t tensor_model_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t context_parallel_size = 1;
  std::optional<int64_t> world_size;
  std::string dataloader_type = "single";

  // How a sample becomes a batch: indices do not depend on these.
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
  bool create_attention_mask = true;  ///< Without it reset_attention_mask resets nothing.
};

/// Megatron's arguments among them, by their fields.
void read_data_args(megatron::FieldReader& args, DataFlags& data);

/// Declares those that are libmeg's own: --samples, --megatron-version, --no-extra-token,
/// --no-drop-last-partial-validation-sequence, and prepare_cache's --prepare-cache-world-size.
void declare_own_data_flags(Flags& flags, DataFlags& data);

/// Declares the whole command line of a training run for a program to which its samples alone
/// matter, after the program's own flags.
void declare_data_flags(Flags& flags, DataFlags& data, megatron::ArgumentValues& args);

/// The tokenizer's part, with the revision to follow. kInvalidArgument for an unknown revision.
Result<tokenizer::TokenizerOptions> tokenizer_options(const DataFlags& data);

/// Fills Megatron's part of `data`, after Flags::parse. kInvalidArgument: wrong usage.
Status finish_data_flags(const megatron::ArgumentValues& args, DataFlags& data);

}  // namespace meg::tools
