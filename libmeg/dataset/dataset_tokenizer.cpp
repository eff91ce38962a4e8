#include "libmeg/dataset/dataset_tokenizer.h"

#include <utility>
#include <vector>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/libmeg_file.h"
#include "libmeg/text/printable.h"

namespace meg::dataset {

std::string dataset_tokenizer_text(const DatasetTokenizer& tokenizer) {
  return fmt::format("{} of {} tokens ({})", text::printable(tokenizer.type), tokenizer.vocab_size,
                     text::printable(tokenizer.identity));
}

std::string dataset_tokenizer_path(const std::string& prefix) {
  return dataset_prefix(prefix) + ".libmeg";
}

Result<std::optional<DatasetTokenizer>> read_dataset_tokenizer(const std::string& prefix) {
  MEG_ASSIGN_OR_RETURN(LibmegFile file, read_libmeg_file(prefix));
  return std::move(file.tokenizer);
}

Status check_dataset_tokenizer(const std::string& prefix, const DatasetTokenizer& given) {
  return check_dataset_tokenizers({&prefix, 1}, [&given] { return std::optional(given); });
}

Status check_dataset_tokenizers(std::span<const std::string> prefixes,
                                const GivenTokenizer& given) {
  std::vector<std::pair<std::string, DatasetTokenizer>> named;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(std::optional<DatasetTokenizer> made, read_dataset_tokenizer(prefix));
    if (made) named.emplace_back(prefix, *std::move(made));
  }
  // The given tokenizer is requested only where a dataset names one: making its identity takes
  // time.
  if (named.empty()) return {};
  MEG_ASSIGN_OR_RETURN(const std::optional<DatasetTokenizer> used, given());
  for (const auto& [prefix, made] : named) {
    // Type and size are for the message (docs/decisions/13-dataset-tokenizer.md).
    if (!used || made.identity == used->identity) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: the dataset was made with another tokenizer: expected {}, found {}",
                      dataset_tokenizer_path(prefix), dataset_tokenizer_text(made),
                      dataset_tokenizer_text(*used));
  }
  return {};
}

}  // namespace meg::dataset
