#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "libmeg/base/result.h"

namespace meg::dataset {

/// The tokenizer of a dataset's ids. It is stored in PREFIX.libmeg, JSON beside the pair, which
/// Megatron's readers ignore.
struct DatasetTokenizer {
  std::string type;        ///< --tokenizer-type, for messages
  std::string identity;    ///< Equal for tokenizers that give the same ids.
  int64_t vocab_size = 0;  ///< tokens, for messages

  bool operator==(const DatasetTokenizer&) const = default;
};

/// Describes the tokenizer in messages.
std::string dataset_tokenizer_text(const DatasetTokenizer& tokenizer);

/// The file's path. prefix: may end in ".bin" or ".idx".
std::string dataset_tokenizer_path(const std::string& prefix);

/// The content of the file; nullopt if there is none. kCorruption if it is not such a file.
Result<std::optional<DatasetTokenizer>> read_dataset_tokenizer(const std::string& prefix);

/// kInvalidArgument, with both names, if the file says that the ids come from a different
/// tokenizer; also read_dataset_tokenizer's errors. A dataset without the file passes.
Status check_dataset_tokenizer(const std::string& prefix, const DatasetTokenizer& given);

/// Returns the tokenizer that datasets are to be read with; nullopt to skip the comparison.
using GivenTokenizer = std::function<Result<std::optional<DatasetTokenizer>>()>;

/// check_dataset_tokenizer() for each of prefixes, whose files are read once. `given` is called at
/// most once, after all files were read and only if one of them names a tokenizer; its errors are
/// returned.
Status check_dataset_tokenizers(std::span<const std::string> prefixes, const GivenTokenizer& given);

}  // namespace meg::dataset
