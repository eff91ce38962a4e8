#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/samples/batches/batch_sampler.h"
#include "libmeg/samples/batches/batch_schedule.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/sample_counts.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// The flags of a training command line for the samples and batches of a run. Each field is
/// Megatron's argument of that name unless stated otherwise.
struct DataArgs {
  std::vector<std::string> data_path;
  PerSplit<std::vector<std::string>> per_split_path;
  std::optional<std::string> data_args_path;
  std::optional<std::string> per_split_data_args_path;
  bool mock_data = false;
  bool sft = false;  ///< Datasets are those of pack_dataset.
  std::string data_impl = "infer";
  std::optional<std::string> split;  ///< Else "969, 30, 1".
  std::optional<int64_t> sequence_length;
  int64_t seed = 1234;
  std::optional<std::string> cache_path;
  /// Set by s3_cache_path too, its name before core 0.13.
  std::optional<std::string> object_storage_cache_path;
  int64_t dataset_builder_threads = 1;
  std::optional<double> mid_level_dataset_surplus;
  bool defer_npy_index_mmap = false;  ///< dataloader_defer_npy_index_mmap

  // libmeg's own, without an argument in Megatron.
  std::optional<std::string> samples;           ///< TRAIN,VALID,TEST.
  std::optional<std::string> megatron_version;  ///< The newest where not given.
  bool keep_last_validation_sequence = false;
  bool no_extra_token = false;

  RunLength length;
  std::optional<int64_t> micro_batch_size;
  std::optional<int64_t> global_batch_size;
  std::vector<std::string> rampup_batch_size;
  std::optional<std::string> step_batch_size_schedule;
  int64_t tensor_model_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t context_parallel_size = 1;
  std::optional<int64_t> world_size;
  std::string dataloader_type = "single";

  // How a sample becomes a batch: indices do not depend on these.
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
  bool allow_ambiguous_pad_tokens = false;
  bool create_attention_mask = true;  ///< Without it reset_attention_mask resets nothing.

  /// Reads Megatron's arguments by their fields; errors are in the reader's status.
  void take_fields(megatron::FieldReader& args);
};

/// The samples that a run is made of.
struct DataRun {
  /// All but the tokenizer's identity, which caches are named by, and the callbacks.
  GptDataConfig config;
  BatchSchedule batches;
  DataloaderType dataloader_type = DataloaderType::kSingle;
  int64_t micro_batch_size = 1;
  int64_t data_parallel_size = 1;
  int64_t train_iters = 0;         ///< Steps; 0 where samples of one epoch are requested.
  std::vector<std::string> notes;  ///< Decisions that a user may not expect.
};

/// Resolves the arguments. Only the files of --data-args-path and --per-split-data-args-path are
/// opened, and read completely. environment_world_size: WORLD_SIZE as torchrun gives it, used where
/// no argument says how many ranks there are; without both there is one data-parallel rank. Errors:
/// kInvalidArgument for wrong usage, with the flag's name; what reading those files gives;
/// kCorruption for a file that is not of its form.
Result<DataRun> resolve_data(const DataArgs& args,
                             const std::optional<std::string>& environment_world_size);

}  // namespace meg::samples
