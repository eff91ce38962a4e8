#include "libmeg/tokenizer/registry/tokenizer_of_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_config.h"
#include "libmeg/tokenizer/json/internal/json_file.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace meg::tokenizer {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path) {}

  std::string path(std::string_view name) const { return (fs::path(path_) / name).string(); }

  bool has(std::string_view name) const {
    std::error_code ignored;
    return fs::is_regular_file(path(name), ignored);
  }

 private:
  std::string path_;
};

Status refuse(const Folder& folder, std::string_view file, std::string_view why) {
  return make_error(StatusCode::kUnsupported,
                    "{}: no tokenizer type gives the ids that transformers gives with it ({}): "
                    "expected a tokenizer.json beside it",
                    folder.path(file), why);
}

/// The largest id that files give a token beside the vocabulary; -1 without one.
Result<int64_t> largest_added_id(const Folder& folder, const TokenizerConfig& config) {
  int64_t largest = config.added_tokens.empty() ? -1 : config.added_tokens.back().id;
  constexpr std::string_view kAddedTokens = "added_tokens.json";
  if (!folder.has(kAddedTokens)) return largest;
  MEG_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::open(folder.path(kAddedTokens)));
  MEG_ASSIGN_OR_RETURN(const auto tokens, file.root().members());
  for (const auto& [token, id] : tokens) {
    MEG_ASSIGN_OR_RETURN(const int64_t number, id.integer());
    largest = std::max(largest, number);
  }
  return largest;
}

/// What tokenizer_config.json and config.json say beside what TokenizerConfig has.
struct MoreConfig {
  std::string tokenizer_class;  // as it is named; empty: by none
  std::string model_type;
  bool add_prefix_space = false;
};

Result<MoreConfig> read_more(const Folder& folder) {
  MoreConfig more;
  for (const std::string_view name : {"tokenizer_config.json", "config.json"}) {
    if (!folder.has(name)) continue;
    MEG_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::open(folder.path(name)));
    const JsonPart root = file.root();
    if (more.tokenizer_class.empty()) {
      MEG_ASSIGN_OR_RETURN(more.tokenizer_class, root.text("tokenizer_class", ""));
    }
    MEG_ASSIGN_OR_RETURN(more.model_type, root.text("model_type", ""));
    MEG_ASSIGN_OR_RETURN(const bool adds_space, root.boolean("add_prefix_space", false));
    more.add_prefix_space |= adds_space;
  }
  return more;
}

/// The class whose rules hold for files without a tokenizer.json. config: of the same folder.
std::string class_of(const TokenizerConfig& config, const MoreConfig& more) {
  constexpr std::string_view kOfLlama[] = {"llama", "mistral", "mixtral"};
  std::string name = config.tokenizer_class;
  // A class that takes a tokenizer.json as it is says nothing of other files.
  if (name.empty() || name == "TokenizersBackend") {
    const bool is_llama = std::ranges::find(kOfLlama, more.model_type) != std::end(kOfLlama);
    name = more.tokenizer_class.empty() && is_llama ? "LlamaTokenizer" : more.tokenizer_class;
  }
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

/// file: the one that messages name.
Status check_added(const Folder& folder, std::string_view file, const TokenizerConfig& config,
                   const TokenizerOptions& options) {
  MEG_ASSIGN_OR_RETURN(const int64_t largest, largest_added_id(folder, config));
  if (largest < 0) return Status();
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(options));
  if (largest < tokenizer->vocab_size()) return Status();
  return refuse(folder, file,
                fmt::format("token {} is added to the {} of the vocabulary", largest,
                            tokenizer->vocab_size()));
}

Result<std::optional<TokenizerOptions>> gpt2_tokenizer(const Folder& folder,
                                                       const TokenizerConfig& config,
                                                       const MoreConfig& more) {
  constexpr std::string_view kFile = "vocab.json";
  constexpr std::string_view kEnd = "<|endoftext|>";
  const AddedToken* const eos = config.named("eos_token");
  if (eos != nullptr && eos->content != kEnd) {
    return refuse(
        folder, kFile,
        fmt::format("eos_token: expected {}, found {}", kEnd, text::printable(eos->content)));
  }
  if (config.add_bos_token.value_or(false) || config.add_eos_token.value_or(false)) {
    return refuse(folder, kFile, "add_bos_token or add_eos_token is set");
  }
  if (more.add_prefix_space) return refuse(folder, kFile, "add_prefix_space is set");
  TokenizerOptions options;
  options.tokenizer_type = "GPT2BPETokenizer";
  options.vocab_file = folder.path(kFile);
  options.merge_file = folder.path("merges.txt");
  MEG_RETURN_IF_ERROR(check_added(folder, kFile, config, options));
  return std::optional(std::move(options));
}

Result<std::optional<TokenizerOptions>> llama_tokenizer(const Folder& folder,
                                                        const TokenizerConfig& config) {
  constexpr std::string_view kFile = "tokenizer.model";
  if (config.add_eos_token.value_or(false)) return refuse(folder, kFile, "add_eos_token is set");
  TokenizerOptions options;
  options.tokenizer_type = "Llama2Tokenizer";
  options.tokenizer_model = folder.path(kFile);
  MEG_RETURN_IF_ERROR(check_added(folder, kFile, config, options));
  return std::optional(std::move(options));
}

}  // namespace

Result<std::optional<TokenizerOptions>> tokenizer_of_folder(const std::string& path) {
  const Folder folder(path);
  if (folder.has("tokenizer.json")) {
    TokenizerOptions options;
    options.tokenizer_type = "HuggingFaceTokenizer";
    options.tokenizer_model = path;
    return std::optional(std::move(options));
  }
  const bool has_merges = folder.has("vocab.json") && folder.has("merges.txt");
  const bool has_pieces = folder.has("tokenizer.model");
  if (!has_merges && !has_pieces) return std::optional<TokenizerOptions>();
  MEG_ASSIGN_OR_RETURN(const TokenizerConfig config, read_tokenizer_config(path));
  MEG_ASSIGN_OR_RETURN(const MoreConfig more, read_more(folder));
  const std::string name = class_of(config, more);
  if (has_merges && name == "GPT2Tokenizer") return gpt2_tokenizer(folder, config, more);
  if (has_pieces && name == "LlamaTokenizer") return llama_tokenizer(folder, config);
  return refuse(folder, has_merges ? "vocab.json" : "tokenizer.model",
                name.empty() ? "its tokenizer_class is not known"
                             : "its class is " + text::printable_name(name, /*limit=*/100));
}

}  // namespace meg::tokenizer
