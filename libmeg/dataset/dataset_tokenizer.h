#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "libmeg/base/result.h"

namespace meg::dataset {

/// The tokenizer that a dataset's ids come from. It stands in PREFIX.libmeg, JSON beside the pair
/// that Megatron's readers do not look at.
struct DatasetTokenizer {
  std::string type;        ///< --tokenizer-type, for messages
  std::string identity;    ///< Equal for tokenizers that give the same ids.
  int64_t vocab_size = 0;  ///< tokens, for messages

  bool operator==(const DatasetTokenizer&) const = default;
};

/// The file's path. prefix: may end in ".bin" or ".idx".
std::string dataset_tokenizer_path(const std::string& prefix);

/// What the file says; nullopt where there is none. kCorruption where it is not such a file.
Result<std::optional<DatasetTokenizer>> read_dataset_tokenizer(const std::string& prefix);

/// kInvalidArgument naming both where the file says that the ids come from another tokenizer;
/// read_dataset_tokenizer's errors. A dataset without the file passes.
Status check_dataset_tokenizer(const std::string& prefix, const DatasetTokenizer& given);

/// Gives the tokenizer that datasets are to be read with; nullopt where none is to be compared.
using GivenTokenizer = std::function<Result<std::optional<DatasetTokenizer>>()>;

/// check_dataset_tokenizer() for each of prefixes, whose files are read once. `given` is called at
/// most once, after all files were read and only where one of them names a tokenizer; its errors.
Status check_dataset_tokenizers(std::span<const std::string> prefixes, const GivenTokenizer& given);

/// What the file is to hold.
std::string dataset_tokenizer_json(const DatasetTokenizer& tokenizer);

}  // namespace meg::dataset
