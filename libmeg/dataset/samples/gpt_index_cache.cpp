#include "libmeg/dataset/samples/gpt_index_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <utility>

#include "libmeg/core/file_lock.h"
#include "libmeg/dataset/samples/cache_lock.h"
#include "libmeg/dataset/samples/cache_place.h"
#include "libmeg/dataset/samples/cache_source.h"

namespace meg {
namespace {

/// An error of writing, told by the folder; others stay as they are.
Status unwritable(const GptIndexCacheFiles& files, const Status& error,
                  const std::string& unusable) {
  if (error.code() != StatusCode::kIoError && error.code() != StatusCode::kNotFound) return error;
  const std::string folder = std::filesystem::path(files.sidecar).parent_path().string();
  return make_error(StatusCode::kIoError,
                    "{}: cannot write the index cache ({}{}{}); give a writable folder with "
                    "--data-cache-path",
                    folder.empty() ? "." : folder, error.message(),
                    unusable.empty() ? "" : "; the one there cannot be used: ", unusable);
}

Result<FileLock> lock_files(const GptIndexCacheFiles& files, const FileLock::Waiting& waiting) {
  std::vector<std::string> all = files.parts();
  all.push_back(files.sidecar);
  return lock_cache(files.sidecar, all, waiting);
}

Result<GptIndexCache> build_locked(const GptIndexCacheFiles& files, std::string unusable,
                                   CacheSource* source) {
  const CacheWaiting& waiting = source->request().waiting;
  const auto lock =
      lock_files(files, [&] { return !waiting || waiting(files.indices.sample_index); });
  if (!lock.has_value()) return unwritable(files, lock.error(), unusable);
  // Another process may have built it meanwhile.
  MEG_ASSIGN_OR_RETURN(PlaceFinding found, look_at_place(files, source));
  if (found.cache.has_value()) return *std::move(found.cache);
  if (!found.unusable.empty()) unusable = std::move(found.unusable);
  MEG_RETURN_IF_ERROR(source->prepare());
  auto built = build_at_place(files, source);
  if (!built.has_value()) return unwritable(files, built.error(), unusable);
  if (!unusable.empty()) built->outcome = CacheOutcome::kRebuilt;
  built->reason = std::move(unusable);
  return built;
}

Result<GptIndexCache> open_or_build(CacheSource* source) {
  MEG_RETURN_IF_ERROR(source->check());
  std::string unusable;
  for (const GptIndexCacheFiles& files : source->request().places) {
    MEG_ASSIGN_OR_RETURN(PlaceFinding found, look_at_place(files, source));
    if (found.cache.has_value()) {
      FileLock::remove_abandoned(cache_lock_path(files.sidecar));
      return *std::move(found.cache);
    }
    if (unusable.empty()) unusable = std::move(found.unusable);
  }
  return build_locked(source->request().places.back(), std::move(unusable), source);
}

}  // namespace

std::vector<std::string> GptIndexCacheFiles::parts() const {
  std::vector<std::string> parts = {indices.document_index, indices.sample_index,
                                    indices.shuffle_index};
  if (!description.empty()) parts.push_back(description);
  return parts;
}

Result<GptIndexCache> open_gpt_index_cache(const GptIndexCacheRequest& request,
                                           const MegatronVersion& version) {
  CacheSource source(request, version);
  try {
    return open_or_build(&source);
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "{}: no memory for its indices",
                      source.dataset().prefix());
  }
}

}  // namespace meg
