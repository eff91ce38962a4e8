#include "libmeg/dataset/internal/companion_files.h"

#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "libmeg/dataset/provenance.h"

namespace meg::dataset {

Status remove_companion_files(const std::string& prefix) {
  for (const std::string& path : {dataset_tokenizer_path(prefix), provenance_path(prefix)}) {
    std::error_code failed;
    std::filesystem::remove(path, failed);
    if (failed) return errno_error(failed.value(), path);
  }
  return Status();
}

Result<std::optional<io::AtomicFile>> create_libmeg_file(const std::string& prefix,
                                                         const LibmegFile& content) {
  if (content.is_empty()) return std::optional<io::AtomicFile>();
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file,
                       io::AtomicFile::create_regular(dataset_tokenizer_path(prefix)));
  const std::string json = libmeg_json(content);
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(json))));
  return std::optional(std::move(file));
}

Result<std::optional<DatasetTokenizer>> common_tokenizer(std::span<const std::string> prefixes,
                                                         std::vector<std::string>& notes) {
  std::optional<DatasetTokenizer> common;
  std::string first;  // with that tokenizer
  bool is_of_all = true;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(std::optional<DatasetTokenizer> tokenizer, read_dataset_tokenizer(prefix));
    is_of_all = is_of_all && tokenizer.has_value();
    if (!tokenizer) continue;
    if (common && common->identity != tokenizer->identity) {
      notes.push_back(fmt::format("{}: made with another tokenizer than {}: {} and {}", prefix,
                                  first, dataset_tokenizer_text(*tokenizer),
                                  dataset_tokenizer_text(*common)));
      return std::optional<DatasetTokenizer>();
    }
    if (common) continue;
    common = std::move(tokenizer);
    first = prefix;
  }
  return is_of_all ? common : std::nullopt;
}

}  // namespace meg::dataset
