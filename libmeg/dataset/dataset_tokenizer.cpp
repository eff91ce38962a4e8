#include "libmeg/dataset/dataset_tokenizer.h"

#include <simdjson.h>

#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/dataset_file.h"
#include "libmeg/text/json/json_text.h"
#include "libmeg/text/printable.h"

namespace meg::dataset {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

Status corrupt(const std::string& path, std::string_view expected) {
  return make_error(StatusCode::kCorruption, "{}: expected {}, found none", path, expected);
}

Result<std::string> read_text(const simdjson::dom::element& tokenizer, const char* key,
                              const std::string& path) {
  std::string_view text;
  if (tokenizer[key].get(text) != simdjson::SUCCESS || text.empty()) {
    return corrupt(path, fmt::format("a string \"tokenizer\".\"{}\"", key));
  }
  return std::string(text);
}

std::string described(const DatasetTokenizer& tokenizer) {
  return fmt::format("{} of {} tokens ({})", text::printable(tokenizer.type), tokenizer.vocab_size,
                     text::printable(tokenizer.identity));
}

}  // namespace

std::string dataset_tokenizer_path(const std::string& prefix) {
  return dataset_prefix(prefix) + ".libmeg";
}

Result<std::optional<DatasetTokenizer>> read_dataset_tokenizer(const std::string& prefix) {
  const std::string path = dataset_tokenizer_path(prefix);
  MEG_ASSIGN_OR_RETURN(const std::optional<io::MappedFile> file, map_if_there(path));
  if (!file.has_value()) return std::optional<DatasetTokenizer>();
  if (file->size() > kMaxBytes) return corrupt(path, "at most a MiB of JSON");
  simdjson::dom::parser parser;
  simdjson::dom::element root, tokenizer;
  const std::string_view text = file->text();
  if (parser.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS ||
      root["tokenizer"].get(tokenizer) != simdjson::SUCCESS) {
    return corrupt(path, "a JSON object with a \"tokenizer\"");
  }
  DatasetTokenizer read;
  MEG_ASSIGN_OR_RETURN(read.type, read_text(tokenizer, "type", path));
  MEG_ASSIGN_OR_RETURN(read.identity, read_text(tokenizer, "identity", path));
  if (tokenizer["vocab_size"].get(read.vocab_size) != simdjson::SUCCESS || read.vocab_size < 1) {
    return corrupt(path, "an integer \"tokenizer\".\"vocab_size\" from 1");
  }
  return std::optional(std::move(read));
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
                      dataset_tokenizer_path(prefix), described(made), described(*used));
  }
  return {};
}

std::string dataset_tokenizer_json(const DatasetTokenizer& tokenizer) {
  text::JsonText json;
  json.begin_object();
  json.key("tokenizer");
  json.begin_object();
  json.key("type");
  json.string(tokenizer.type);
  json.key("identity");
  json.string(tokenizer.identity);
  json.key("vocab_size");
  json.number(tokenizer.vocab_size);
  json.end_object();
  json.end_object();
  return json.text() + "\n";
}

}  // namespace meg::dataset
