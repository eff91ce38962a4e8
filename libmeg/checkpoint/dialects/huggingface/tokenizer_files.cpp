#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHuggingFaceFiles[] = {"added_tokens.json",
                                                  "chat_template.jinja",
                                                  "config.json",
                                                  "generation_config.json",
                                                  "merges.txt",
                                                  "special_tokens_map.json",
                                                  "tokenizer.json",
                                                  "tokenizer.model",
                                                  "tokenizer_config.json",
                                                  "vocab.json"};

bool is_tokenizer_file(std::string_view name) {
  return std::find(std::begin(kHuggingFaceFiles), std::end(kHuggingFaceFiles), name) !=
         std::end(kHuggingFaceFiles);
}

/// Where a checkpoint has its tokenizer's files.
std::string files_folder(const CheckpointFolder& checkpoint) {
  return checkpoint.format == CheckpointFormat::kHuggingFace
             ? checkpoint.folder
             : join_path(checkpoint.folder, kTokenizerFolder);
}

}  // namespace

Result<std::vector<std::string>> check_tokenizer_files(const CheckpointFolder& checkpoint) {
  const bool is_huggingface = checkpoint.format == CheckpointFormat::kHuggingFace;
  const std::string from =
      is_huggingface ? checkpoint.folder : join_path(checkpoint.folder, kTokenizerFolder);
  std::vector<std::string> notes;
  std::error_code error;
  if (!fs::is_directory(from, error)) return notes;
  MEG_ASSIGN_OR_RETURN(const FolderEntries entries, FolderEntries::list(from));
  for (const auto& [name, is_folder] : entries) {
    if (is_huggingface && !is_tokenizer_file(name)) continue;
    const std::string path = join_path(from, name);
    if (is_folder) {
      notes.push_back(
          fmt::format("{}: a folder among the tokenizer's files: it is not copied", path));
    } else {
      MEG_RETURN_IF_ERROR(io::FileDescriptor::open_regular(path).status());
    }
  }
  return notes;
}

Status copy_tokenizer_files(const CheckpointFolder& checkpoint, const std::string& to) {
  MEG_RETURN_IF_ERROR(check_tokenizer_files(checkpoint).status());
  const bool is_huggingface = checkpoint.format == CheckpointFormat::kHuggingFace;
  const std::string from = files_folder(checkpoint);
  std::error_code error;
  if (!fs::is_directory(from, error)) return Status();
  MEG_ASSIGN_OR_RETURN(const FolderEntries entries, FolderEntries::list(from));
  for (const auto& [name, is_folder] : entries) {
    if (is_folder || (is_huggingface && !is_tokenizer_file(name))) continue;
    fs::create_directories(to, error);
    if (error) return errno_error(error.value(), "cannot create " + to);
    fs::copy_file(join_path(from, name), join_path(to, name), error);
    if (error) return errno_error(error.value(), join_path(from, name));
  }
  return Status();
}

std::optional<std::string> source_config_path(const CheckpointFolder& checkpoint) {
  std::string path = join_path(files_folder(checkpoint), kConfigName);
  std::error_code error;
  return fs::exists(path, error) ? std::optional(std::move(path)) : std::nullopt;
}

}  // namespace meg::checkpoint
