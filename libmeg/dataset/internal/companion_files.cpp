#include "libmeg/dataset/internal/companion_files.h"

#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "libmeg/dataset/provenance.h"

namespace meg::dataset {
namespace {

/// What PREFIX.libmeg says of a link PREFIX.bin.
Result<std::optional<ViewOf>> view_at(const std::string& prefix) {
  std::error_code absent;
  if (!std::filesystem::is_symlink(prefix + ".bin", absent)) return std::optional<ViewOf>();
  return read_view_of(prefix);
}

}  // namespace

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

Status check_is_no_view(const std::string& prefix) {
  MEG_ASSIGN_OR_RETURN(const auto view, view_at(prefix));
  if (!view) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "{}.bin: expected a file of the dataset's own as output, found the link of a "
                    "view to {}: remove the view first",
                    prefix, view->bin);
}

Status check_view(const std::string& prefix, int64_t bin_bytes) {
  MEG_ASSIGN_OR_RETURN(const auto view, view_at(prefix));
  if (!view || view->bytes == bin_bytes) return {};
  return make_error(StatusCode::kCorruption,
                    "{}.bin: a view: expected the {} bytes that {} had when it was made, found {}",
                    prefix, view->bytes, view->bin, bin_bytes);
}

}  // namespace meg::dataset
