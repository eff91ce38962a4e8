#include "libmeg/app/internal/check_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace meg::app {
namespace {

using dataset::DatasetTokenizer;
using tokenizer::TokenizerOptions;

/// Rows that pad a vocabulary at most: Megatron's divisor on as many tensor-parallel ranks as
/// anyone has.
int64_t max_padding(const model::GptConfig& config) {
  constexpr int64_t kMaxTensorRanks = 64;
  return std::max(config.make_vocab_size_divisible_by, int64_t{1}) * kMaxTensorRanks;
}

/// Tokenizers of other types may count their tokens in another way.
bool has_same_type(const std::string& type, const checkpoint::MegatronCheckpoint& checkpoint) {
  const std::optional<megatron::FieldValue> found = checkpoint.arg("tokenizer_type");
  const std::string* name = found.has_value() ? std::get_if<std::string>(&*found) : nullptr;
  return name == nullptr || *name == type;
}

/// The words of the checkpoint's args that name datasets, weights among them.
std::vector<std::string> dataset_words(megatron::FieldReader& args) {
  std::vector<std::string> words;
  for (const char* const field :
       {"data_path", "train_data_path", "valid_data_path", "test_data_path"}) {
    std::vector<std::string> more;
    args.take(field, more);
    words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::string> files_of(const TokenizerOptions& options) {
  std::vector<std::string> files = {options.vocab_file, options.merge_file,
                                    options.tokenizer_model};
  std::erase(files, "");
  return files;
}

/// Names the tokenizer in messages: its type and its files.
std::string named(const TokenizerOptions& options) {
  std::string text = options.tokenizer_type;
  for (const std::string& file : files_of(options)) {
    text.append(" ").append(text::printable(file, 200));
  }
  return text;
}

/// Whether the options name a tokenizer whose files are on this machine.
bool can_be_opened(const TokenizerOptions& options) {
  const std::vector<std::string> files = files_of(options);
  return tokenizer::names_tokenizer(options) && std::all_of(files.begin(), files.end(), exists);
}

Status check_tokenizer_of_args(const std::string& identity, const TokenizerOptions& given,
                               const TokenizerOptions& recorded) {
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       tokenizer::open_tokenizer(recorded));
  if (tokenizer->identity().value_or(identity) == identity) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "not the tokenizer of this checkpoint's args: expected {}, found {}",
                    named(recorded), named(given));
}

Status check_identity(const DatasetTokenizer& given, const TokenizerOptions& options,
                      const checkpoint::MegatronCheckpoint& checkpoint) {
  const megatron::FieldLookup fields = [&](std::string_view name) {
    return checkpoint.described_arg(name);
  };
  megatron::FieldReader args(fields);
  bool is_known = false;
  for (const std::string& word : dataset_words(args)) {
    if (!exists(dataset::dataset_tokenizer_path(word))) continue;
    MEG_RETURN_IF_ERROR(dataset::check_dataset_tokenizer(word, given));
    is_known = true;
  }
  TokenizerOptions recorded;
  recorded.version = options.version;
  recorded.take_fields(args);
  MEG_RETURN_IF_ERROR(args.status());
  const bool is_same =
      recorded.tokenizer_type == options.tokenizer_type && files_of(recorded) == files_of(options);
  if (is_known || is_same || !can_be_opened(recorded)) return {};
  return check_tokenizer_of_args(given.identity, options, recorded);
}

}  // namespace

int64_t vocabulary_rows(const checkpoint::MegatronCheckpoint& checkpoint) {
  for (const checkpoint::LogicalParameter& parameter : checkpoint.parameters()) {
    if (parameter.placement == model::Placement::kEmbedding &&
        parameter.partition == model::Partition::kVocabulary) {
      return parameter.shape[0];
    }
  }
  return checkpoint.config().padded_vocab_size;
}

Status check_vocabulary_size(const tokenizer::Tokenizer& tokenizer,
                             const tokenizer::TokenizerOptions& options,
                             const checkpoint::MegatronCheckpoint& checkpoint) {
  const int64_t rows = vocabulary_rows(checkpoint);
  const std::string& folder = checkpoint.folder().folder;
  if (tokenizer.vocab_size() > rows) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: not the tokenizer of this checkpoint: expected at most {} tokens "
                      "(padded_vocab_size), found {}",
                      folder, rows, tokenizer.vocab_size());
  }
  if (rows - tokenizer.vocab_size() >= max_padding(checkpoint.config())) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: not the tokenizer of this checkpoint: expected more than {} tokens for "
                      "its {} rows, found {}",
                      folder, rows - max_padding(checkpoint.config()), rows,
                      tokenizer.vocab_size());
  }
  const std::optional<int64_t> expected = checkpoint::tokenizer_size_of_args(checkpoint);
  const bool is_comparable =
      expected.has_value() && has_same_type(options.tokenizer_type, checkpoint);
  if (!is_comparable || *expected == tokenizer.vocab_size()) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: not the tokenizer of this checkpoint: expected {} tokens (vocab_size), "
                    "found {}",
                    folder, *expected, tokenizer.vocab_size());
}

Status check_tokenizer_identity(const tokenizer::Tokenizer& tokenizer,
                                const TokenizerOptions& options,
                                const checkpoint::MegatronCheckpoint& checkpoint) {
  const std::optional<std::string> identity = tokenizer.identity();
  if (!identity) return {};
  const Status status = check_identity({options.tokenizer_type, *identity, tokenizer.vocab_size()},
                                       options, checkpoint);
  if (status.ok()) return status;
  return make_error(status.code(), "{}: {}; `allow_other_tokenizer` skips this comparison",
                    checkpoint.folder().folder, status.message());
}

}  // namespace meg::app
