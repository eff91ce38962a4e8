#pragma once

#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/shard_run.h"

namespace meg::dataset {

/// The content of PREFIX.libmeg, a JSON file beside the pair that Megatron's readers ignore.
struct LibmegFile {
  std::optional<DatasetTokenizer> tokenizer = {};
  ShardRun shard_run = {};
  std::optional<ViewOf> view = {};

  bool is_empty() const { return !tokenizer && shard_run.empty() && !view; }
};

/// Reads the file of a dataset; the result is empty if there is none. kCorruption if it is not such
/// a file.
Result<LibmegFile> read_libmeg_file(const std::string& prefix);

/// What the file is to hold.
std::string libmeg_json(const LibmegFile& file);

}  // namespace meg::dataset
