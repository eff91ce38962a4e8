#include "libmeg/tokenizer/training/save_trained_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/training/internal/serde_json.h"
#include "libmeg/tokenizer/training/internal/training_pattern.h"

// Writes the files that Megatron, transformers and libmeg read, byte for byte as tokenizers' own
// save() does where it has such a file. All of them appear together (commit_all): a vocabulary
// beside another run's merges would be a tokenizer of its own.

namespace meg::tokenizer {
namespace {

namespace fs = std::filesystem;

/// Everything in a folder that Megatron, transformers or libmeg takes for a part of a tokenizer.
/// Such a file that is not written here would stay and be read with the new ones.
constexpr std::array<std::string_view, 8> kTokenizerFiles = {"vocab.json",
                                                             "merges.txt",
                                                             "tokenizer_config.json",
                                                             "tokenizer.json",
                                                             "added_tokens.json",
                                                             "special_tokens_map.json",
                                                             "tokenizer.model",
                                                             "tokenizer_metadata.json"};

template <class Items, class Write>
std::string joined(const Items& items, std::string_view separator, const Write& write) {
  std::string text;
  size_t index = 0;
  for (const auto& item : items) {
    if (index > 0) text += separator;
    text += write(item, index++);
  }
  return text;
}

std::string vocab_json(const TrainedBpe& trained) {
  return "{" +
         joined(trained.tokens, ",",
                [](const std::string& token, size_t id) {
                  return fmt::format("{}:{}", serde_quoted(token), id);
                }) +
         "}";
}

std::string merges_txt(const TrainedBpe& trained) {
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : trained.merges) {
    text += fmt::format("{} {}\n", trained.tokens[left], trained.tokens[right]);
  }
  return text;
}

std::string added_token(const std::string& token, size_t id) {
  return fmt::format(
      R"(    {{
      "id": {},
      "content": {},
      "single_word": false,
      "lstrip": false,
      "rstrip": false,
      "normalized": false,
      "special": true
    }})",
      id, serde_quoted(token));
}

/// A list in brackets, with its items on lines of their own.
std::string bracketed(const std::string& items, std::string_view brackets,
                      std::string_view indent) {
  if (items.empty()) return std::string(brackets);
  return fmt::format("{}\n{}\n{}{}", brackets[0], items, indent, brackets[1]);
}

Result<std::string> tokenizer_json(const TrainedBpe& trained) {
  MEG_ASSIGN_OR_RETURN(const std::string pre_tokenizer, pre_tokenizer_json(trained.pattern));
  const std::string added = joined(trained.special_tokens, ",\n", added_token);
  const std::string vocab = joined(trained.tokens, ",\n", [](const std::string& token, size_t id) {
    return fmt::format("      {}: {}", serde_quoted(token), id);
  });
  const std::string merges = joined(trained.merges, ",\n", [&](const auto& pair, size_t) {
    return fmt::format("      [\n        {},\n        {}\n      ]",
                       serde_quoted(trained.tokens[pair.first]),
                       serde_quoted(trained.tokens[pair.second]));
  });
  return fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": {},
  "normalizer": null,
  "pre_tokenizer": {},
  "post_processor": null,
  "decoder": {{
    "type": "ByteLevel",
    "add_prefix_space": true,
    "trim_offsets": true,
    "use_regex": true
  }},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {},
    "merges": {}
  }}
}})",
                     bracketed(added, "[]", "  "), pre_tokenizer, bracketed(vocab, "{}", "    "),
                     bracketed(merges, "[]", "    "));
}

using NamedTokens = std::array<std::pair<std::string_view, std::string>, 3>;

NamedTokens named_tokens(const SaveOptions& options) {
  return {{{"bos_token", options.bos_token},
           {"eos_token", options.eos_token},
           {"pad_token", options.pad_token}}};
}

/// Without tokenizer_class transformers would look for a model beside the tokenizer.
std::string tokenizer_config_json(const SaveOptions& options) {
  std::string text = "{\n";
  for (const auto& [name, token] : named_tokens(options)) {
    if (!token.empty()) text += fmt::format("  \"{}\": {},\n", name, serde_quoted(token));
  }
  return text + "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
}

Result<std::string> content_of(std::string_view file, const TrainedBpe& trained,
                               const SaveOptions& options) {
  if (file == "vocab.json") return vocab_json(trained);
  if (file == "merges.txt") return merges_txt(trained);
  if (file == "tokenizer_config.json") return tokenizer_config_json(options);
  return tokenizer_json(trained);
}

std::vector<std::string> file_names(const std::string& pattern) {
  std::vector<std::string> names;
  // GPT2BPETokenizer has its pattern built in: with another pattern these two files would tokenize
  // otherwise.
  if (is_gpt2_pattern(pattern)) names = {"vocab.json", "merges.txt"};
  names.insert(names.end(), {"tokenizer_config.json", "tokenizer.json"});
  return names;
}

Status check_named_tokens(const SaveOptions& save, const std::vector<std::string>& special_tokens) {
  for (const auto& [name, token] : named_tokens(save)) {
    if (token.empty() || std::count(special_tokens.begin(), special_tokens.end(), token) > 0) {
      continue;
    }
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected one of the special tokens, found {}", name,
                      text::printable(token));
  }
  return {};
}

Status check_folder(const std::string& folder, const std::vector<std::string>& written) {
  for (const std::string_view file : kTokenizerFiles) {
    const fs::path path = fs::path(folder) / file;
    std::error_code error;
    if (std::count(written.begin(), written.end(), file) > 0 || !fs::exists(path, error)) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: a file of another tokenizer would remain beside the new one; expected a "
                      "folder without it",
                      path.string());
  }
  return {};
}

}  // namespace

Result<TrainedBpeFiles> TrainedBpeFiles::create(const SaveOptions& save,
                                                const BpeTrainerOptions& options) {
  // All before training, which may take hours.
  MEG_RETURN_IF_ERROR(check_named_tokens(save, options.special_tokens));
  TrainedBpeFiles made;
  made.options_ = save;
  made.names_ = file_names(options.pattern);
  MEG_RETURN_IF_ERROR(check_folder(save.folder, made.names_));
  for (const std::string& name : made.names_) {
    const std::string path = (fs::path(save.folder) / name).string();
    MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_regular(path));
    made.files_.push_back(std::move(file));
  }
  return made;
}

Status TrainedBpeFiles::save(const TrainedBpe& trained) {
  std::vector<io::AtomicFile*> files;
  for (size_t i = 0; i < names_.size(); ++i) {
    MEG_ASSIGN_OR_RETURN(const std::string content, content_of(names_[i], trained, options_));
    MEG_RETURN_IF_ERROR(files_[i].write(std::as_bytes(std::span(content))));
    files.push_back(&files_[i]);
  }
  return io::AtomicFile::commit_all(files);
}

std::vector<std::string> TrainedBpeFiles::paths() const {
  std::vector<std::string> paths;
  for (const std::string& name : names_) paths.push_back(options_.folder + "/" + name);
  return paths;
}

}  // namespace meg::tokenizer
