#include "libmeg/tokenizer/registry/internal/wrong_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/tokenizer/files/internal/huggingface/hub_cache.h"
#include "libmeg/tokenizer/json/internal/base64.h"
#include "libmeg/tokenizer/json/internal/json_file.h"
#include "libmeg/tokenizer/json/internal/text_file.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model_file.h"

// Files are judged by their content, and only after a type could not read them: names do not tell
// (Llama 2's tokenizer.model is a SentencePiece model, Llama 3's is not).

namespace meg::tokenizer {
namespace {

namespace fs = std::filesystem;

enum class FileKind {
  kTokenizerJson,
  kTokenizerConfig,
  kTekken,
  kVocabulary,
  kMerges,
  kWordPieces,
  kRankLines,
  kRankList,
  kSentencePiece,
};

struct KindRow {
  FileKind kind;
  std::string_view what;
  std::string_view types;  ///< That read it; empty: none.
  std::string_view flag;   ///< By which they take it.
  std::string_view advice;
};

constexpr KindRow kKinds[] = {
    {FileKind::kTokenizerJson, "a tokenizer.json", "HuggingFaceTokenizer", "`tokenizer_model`", ""},
    {FileKind::kTokenizerConfig, "a tokenizer_config.json", "", "",
     "HuggingFaceTokenizer reads it beside a tokenizer.json: name that file or the folder"},
    {FileKind::kTekken, "Mistral's tekken.json", "", "",
     "no type reads it: HuggingFaceTokenizer reads the model's tokenizer.json"},
    {FileKind::kVocabulary, "a vocab.json of byte-level BPE", "GPT2BPETokenizer", "`vocab_file`",
     ""},
    {FileKind::kMerges, "merges of byte-level BPE", "GPT2BPETokenizer", "`merge_file`", ""},
    {FileKind::kWordPieces, "a vocab.txt of WordPiece", "BertWordPieceLowerCase BertWordPieceCase",
     "`vocab_file`", ""},
    {FileKind::kRankLines, "tiktoken ranks (such as Llama 3's tokenizer.model)", "TikTokenizer",
     "`tokenizer_model`",
     "it puts special tokens in front of them; Llama 3's own ids are those of HuggingFaceTokenizer "
     "with the model's tokenizer.json"},
    {FileKind::kRankList, "a JSON list of tiktoken ranks", "TikTokenizer", "`tokenizer_model`", ""},
    {FileKind::kSentencePiece, "a SentencePiece model",
     "SentencePieceTokenizer GPTSentencePieceTokenizer Llama2Tokenizer", "`tokenizer_model`", ""},
};

const KindRow& row_of(FileKind kind) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds),
                       [kind](const KindRow& row) { return row.kind == kind; });
}

bool is_read_by(const KindRow& row, std::string_view type, std::string_view flag) {
  const std::vector<std::string_view> types = megatron::words_of(row.types);
  return row.flag == flag && std::find(types.begin(), types.end(), type) != types.end();
}

std::optional<FileKind> kind_of_object(std::string_view text) {
  const Result<JsonFile> file = JsonFile::parse(text, "");
  if (!file.has_value()) return std::nullopt;
  const JsonPart root = file->root();
  const auto has = [&](std::string_view key) { return root.find(key).has_value(); };
  if (const auto model = root.find("model"); model && model->is_object()) {
    return FileKind::kTokenizerJson;
  }
  if (const auto vocab = root.find("vocab"); vocab && vocab->is_list() && has("config")) {
    return FileKind::kTekken;
  }
  if (has("tokenizer_class") || has("added_tokens_decoder") || has("model_max_length")) {
    return FileKind::kTokenizerConfig;
  }
  simdjson::dom::object object;
  if (root.value().get(object) != simdjson::SUCCESS || object.size() == 0) return std::nullopt;
  for (const auto field : object) {
    if (!field.value.is_int64()) return std::nullopt;
  }
  return FileKind::kVocabulary;
}

std::vector<std::string_view> first_lines(std::string_view text, size_t count) {
  std::vector<std::string_view> lines;
  while (!text.empty() && lines.size() < count) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// `IQ== 0`, `Ig== 1` ...
bool is_rank_line(std::string_view line, size_t rank) {
  const size_t space = std::min(line.find(' '), line.size());
  return decode_base64(line.substr(0, space)).has_value() && space > 0 &&
         line.substr(space) == fmt::format(" {}", rank);
}

bool is_merge(std::string_view line) {
  const size_t space = line.find(' ');
  return space != line.npos && space > 0 && space + 1 < line.size() &&
         line.find_first_of(" \t", space + 1) == line.npos;
}

std::optional<FileKind> kind_of_lines(std::string_view text) {
  constexpr size_t kLooked = 4;
  const std::vector<std::string_view> lines = first_lines(text, kLooked);
  if (lines.size() >= 2 && is_rank_line(lines[0], 0) && is_rank_line(lines[1], 1)) {
    return FileKind::kRankLines;
  }
  const bool has_header = lines[0].starts_with("#version");
  if (lines.size() >= 2 &&
      std::all_of(lines.begin() + (has_header ? 1 : 0), lines.end(), is_merge)) {
    return FileKind::kMerges;
  }
  const auto has_line = [&](std::string_view line) {
    return text.starts_with(fmt::format("{}\n", line)) ||
           text.find(fmt::format("\n{}\n", line)) != text.npos ||
           text.find(fmt::format("\n{}\r\n", line)) != text.npos;
  };
  return has_line("[CLS]") && has_line("[SEP]") ? std::optional(FileKind::kWordPieces)
                                                : std::nullopt;
}

std::optional<FileKind> kind_of_text(std::string_view text) {
  if (sentencepiece::ModelFile::parse(text, "").has_value()) return FileKind::kSentencePiece;
  text = without_byte_order_mark(text);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return std::nullopt;
  if (text[first] == '{') return kind_of_object(text);
  if (text[first] != '[' || text.starts_with("[PAD]")) return kind_of_lines(text);
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  std::string_view bytes;
  const bool is_ranks = parser.parse(text.data(), text.size()).get(list) == simdjson::SUCCESS &&
                        list.at(0)["token_bytes"].get(bytes) == simdjson::SUCCESS;
  return is_ranks ? std::optional(FileKind::kRankList) : std::nullopt;
}

/// nullopt for what is no file, cannot be read or is of no kind.
std::optional<FileKind> kind_of_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  const Result<io::MappedFile> file = open_tokenizer_file(path);
  return file.has_value() ? kind_of_text(file->text()) : std::nullopt;
}

/// "expected ..., found ..., which `tokenizer_type` ... reads".
std::string wrong_kind(std::string_view type, std::string_view flag, const KindRow& found,
                       std::string_view name) {
  std::vector<std::string_view> expected;
  for (const KindRow& row : kKinds) {
    if (is_read_by(row, type, flag)) expected.push_back(row.what);
  }
  std::string text =
      fmt::format("expected {}, found {}{}", fmt::join(expected, " or "), name, found.what);
  if (!found.types.empty()) {
    text += fmt::format(", which `tokenizer_type` {} reads",
                        fmt::join(megatron::words_of(found.types), ", "));
    if (found.flag != flag) text += fmt::format(" as {}", found.flag);
  }
  return found.advice.empty() ? text : fmt::format("{} ({})", text, found.advice);
}

struct GivenFile {
  std::string_view flag;
  std::string path;
};

std::vector<GivenFile> given_files(const TokenizerType& type, const TokenizerOptions& options) {
  std::vector<GivenFile> files;
  for (const RequiredFlag& required : type.required) {
    for (const auto& [flag, path] :
         {std::pair<std::string_view, const std::string&>("`vocab_file`", options.vocab_file),
          {"`merge_file`", options.merge_file},
          {"`tokenizer_model`", options.tokenizer_model}}) {
      if (required.flag == flag) files.push_back({flag, path});
    }
  }
  return files;
}

/// Names that files of a tokenizer have in folders.
bool is_tokenizer_name(const std::string& name) {
  constexpr std::string_view kNames[] = {"tokenizer.json", "tekken.json", "vocab.json",
                                         "merges.txt", "vocab.txt"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.ends_with(".model") || name.ends_with(".tiktoken");
}

Status explain_folder(const TokenizerType& type, const GivenFile& given, const std::string& folder,
                      const Status& error) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (is_tokenizer_name(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::string other;
  for (const std::string& name : names) {
    const std::optional<FileKind> kind = kind_of_file((fs::path(folder) / name).string());
    if (!kind.has_value()) continue;
    if (!is_read_by(row_of(*kind), type.name, given.flag)) {
      if (other.empty()) other = wrong_kind(type.name, given.flag, row_of(*kind), name + ", ");
      continue;
    }
    // The one type that takes a folder has found its file.
    if (type.name == "HuggingFaceTokenizer") return error;
    return Status(error.code(), fmt::format("{}: expected a file, found a folder: name {} in it",
                                            given.path, name));
  }
  if (other.empty()) return error;
  return Status(error.code(), fmt::format("{}: {}", given.path, other));
}

}  // namespace

Status explain_wrong_file(const TokenizerType& type, const TokenizerOptions& options,
                          const Status& error) {
  const std::vector<GivenFile> files = given_files(type, options);
  std::vector<std::string> swapped;
  for (const GivenFile& file : files) {
    std::error_code missing;
    const std::string path =
        fs::exists(file.path, missing) ? file.path : cached_model_folder(file.path).value_or("");
    if (fs::is_directory(path, missing)) {
      const Status explained = explain_folder(type, file, path, error);
      if (explained.message() != error.message()) return explained;
      continue;
    }
    const std::optional<FileKind> kind = kind_of_file(path);
    if (!kind.has_value() || is_read_by(row_of(*kind), type.name, file.flag)) continue;
    const bool is_of_other_flag = std::any_of(
        files.begin(), files.end(),
        [&](const GivenFile& other) { return is_read_by(row_of(*kind), type.name, other.flag); });
    const std::string wrong = wrong_kind(type.name, file.flag, row_of(*kind), "");
    if (!is_of_other_flag)
      return Status(error.code(), fmt::format("{} {}: {}", file.flag, path, wrong));
    swapped.push_back(fmt::format("{} {}: {}", file.flag, path, wrong));
  }
  if (swapped.empty()) return error;
  if (swapped.size() == 1) return Status(error.code(), swapped.front());
  return Status(error.code(), fmt::format("{} and {} are swapped: {}", files[0].flag, files[1].flag,
                                          fmt::join(swapped, "; ")));
}

}  // namespace meg::tokenizer
