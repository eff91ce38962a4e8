#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
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

/// Those of a checkpoint's files that belong to its tokenizer; by name, whether it is a folder.
Result<std::map<std::string, bool>> found_entries(const CheckpointFolder& checkpoint) {
  const bool is_huggingface = checkpoint.format == CheckpointFormat::kHuggingFace;
  const std::string from = files_folder(checkpoint);
  std::map<std::string, bool> found;
  std::error_code error;
  if (!fs::is_directory(from, error)) return found;
  MEG_ASSIGN_OR_RETURN(const FolderEntries entries, FolderEntries::list(from));
  for (const auto& [name, is_folder] : entries) {
    if (!is_huggingface || is_tokenizer_file(name)) found.emplace(name, is_folder);
  }
  return found;
}

}  // namespace

Result<std::vector<std::string>> check_tokenizer_files(const CheckpointFolder& checkpoint) {
  MEG_ASSIGN_OR_RETURN(const auto entries, found_entries(checkpoint));
  std::vector<std::string> notes;
  for (const auto& [name, is_folder] : entries) {
    if (!is_folder) continue;
    notes.push_back(fmt::format("{}: a folder among the tokenizer's files: it is not copied",
                                join_path(files_folder(checkpoint), name)));
  }
  MEG_RETURN_IF_ERROR(tokenizer_files(checkpoint).status());
  return notes;
}

Result<std::vector<TokenizerFile>> tokenizer_files(const CheckpointFolder& checkpoint) {
  MEG_ASSIGN_OR_RETURN(const auto entries, found_entries(checkpoint));
  std::vector<TokenizerFile> files;
  for (const auto& [name, is_folder] : entries) {
    if (is_folder) continue;
    files.push_back({name, join_path(files_folder(checkpoint), name)});
    MEG_RETURN_IF_ERROR(io::FileDescriptor::open_regular(files.back().path).status());
  }
  return files;
}

Result<std::vector<TokenizerFile>> files_of_tokenizer(std::span<const std::string> paths) {
  std::vector<TokenizerFile> files;
  const auto add = [&](const std::string& path) -> Status {
    const std::string name = fs::path(path).filename().string();
    for (const TokenizerFile& other : files) {
      if (other.name != name) continue;
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected files of a tokenizer with different names, found {} too",
                        path, other.path);
    }
    MEG_RETURN_IF_ERROR(io::FileDescriptor::open_regular(path).status());
    files.push_back({name, path});
    return Status();
  };
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      MEG_RETURN_IF_ERROR(add(path));
      continue;
    }
    MEG_ASSIGN_OR_RETURN(const FolderEntries entries, FolderEntries::list(path));
    for (const auto& [name, is_folder] : entries) {
      const bool is_models = name == kConfigName || name == "generation_config.json";
      if (is_folder || is_models || !is_tokenizer_file(name)) continue;
      MEG_RETURN_IF_ERROR(add(join_path(path, name)));
    }
  }
  return files;
}

Status copy_tokenizer_files(const CheckpointFolder& checkpoint, const std::string& to) {
  MEG_ASSIGN_OR_RETURN(const std::vector<TokenizerFile> files, tokenizer_files(checkpoint));
  return copy_tokenizer_files(files, to);
}

Status copy_tokenizer_files(std::span<const TokenizerFile> files, const std::string& to) {
  std::error_code error;
  if (!files.empty()) fs::create_directories(to, error);
  if (error) return errno_error(error.value(), "cannot create " + to);
  for (const TokenizerFile& file : files) {
    fs::copy_file(file.path, join_path(to, file.name), error);
    if (error) return errno_error(error.value(), file.path);
  }
  return Status();
}

std::optional<std::string> source_config_path(const CheckpointFolder& checkpoint) {
  std::string path = join_path(files_folder(checkpoint), kConfigName);
  std::error_code error;
  return fs::exists(path, error) ? std::optional(std::move(path)) : std::nullopt;
}

}  // namespace meg::checkpoint
