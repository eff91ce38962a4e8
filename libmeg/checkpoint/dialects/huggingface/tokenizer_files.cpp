#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"

#include <filesystem>
#include <string_view>

#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenizerFiles[] = {
    "added_tokens.json", "chat_template.jinja",     "generation_config.json",
    "merges.txt",        "special_tokens_map.json", "tokenizer.json",
    "tokenizer.model",   "tokenizer_config.json",   "vocab.json"};

}  // namespace

Result<std::vector<std::string>> find_tokenizer_files(const std::string& folder) {
  MEG_ASSIGN_OR_RETURN(const FolderEntries entries, FolderEntries::list(folder));
  std::vector<std::string> names;
  for (const std::string_view name : kTokenizerFiles) {
    if (entries.has_file(name)) names.emplace_back(name);
  }
  return names;
}

Status copy_tokenizer_files(const std::string& from, const std::vector<std::string>& names,
                            const std::string& to) {
  if (names.empty()) return Status();
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return errno_error(error.value(), "cannot create " + to);
  for (const std::string& name : names) {
    fs::copy_file(join_path(from, name), join_path(to, name), error);
    if (error) return errno_error(error.value(), join_path(from, name));
  }
  return Status();
}

}  // namespace meg::checkpoint
