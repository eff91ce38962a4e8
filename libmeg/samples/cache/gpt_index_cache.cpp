#include "libmeg/samples/cache/gpt_index_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include "libmeg/io/file_descriptor.h"
#include "libmeg/io/file_lock.h"
#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/cache/internal/cache_lock.h"
#include "libmeg/samples/cache/internal/cache_place.h"
#include "libmeg/samples/cache/internal/cache_source.h"

namespace meg::samples {
namespace {

// What groups hold back: caches, the share of the process's descriptors that these may take (a
// cache has three indices, a description and its lock open), and bytes that the system has not yet
// written, in each group. Flushing 32 caches together is what made a blend's 1,200 caches nine
// times as fast (docs/decisions/07-outputs-by-rename.md).
constexpr int64_t kMaxWritten = 32;
constexpr int64_t kDescriptorShare = 4, kDescriptorsOfOne = 5;
constexpr int64_t kMaxBytes = int64_t{64} << 20;

/// An error of writing, with the folder's name; others stay as they are.
Status unwritable(const GptIndexCacheFiles& files, const Status& error,
                  const std::string& unusable) {
  if (error.code() != StatusCode::kIoError && error.code() != StatusCode::kNotFound) return error;
  const std::string folder = std::filesystem::path(files.sidecar).parent_path().string();
  return make_error(StatusCode::kIoError,
                    "{}: cannot write the index cache ({}{}{}); give a writable folder with "
                    "`data_cache_path`",
                    folder.empty() ? "." : folder, error.message(),
                    unusable.empty() ? "" : "; the existing one cannot be used: ", unusable);
}

Status no_memory(const dataset::IndexedDataset& dataset) {
  return make_error(StatusCode::kResourceExhausted, "{}: no memory for its indices",
                    dataset.prefix());
}

Result<io::FileLock> lock_files(const GptIndexCacheFiles& files,
                                const io::FileLock::Waiting& waiting) {
  std::vector<std::string> all = files.parts();
  all.push_back(files.sidecar);
  return lock_cache(files.sidecar, all, waiting);
}

/// The first cache that can be used, or why the first one that is there cannot.
Result<PlaceFinding> look_at_places(CacheSource* source) {
  MEG_RETURN_IF_ERROR(source->check());
  PlaceFinding none;
  for (const GptIndexCacheFiles& files : source->request().places) {
    MEG_ASSIGN_OR_RETURN(PlaceFinding found, look_at_place(files, source));
    if (found.cache.has_value()) {
      io::FileLock::remove_abandoned(cache_lock_path(files.sidecar));
      return found;
    }
    if (none.unusable.empty()) none.unusable = std::move(found.unusable);
  }
  return none;
}

}  // namespace

/// A cache that is built and waits for the others of its group. The lock outlives the files.
struct GptIndexCacheGroup::Written {
  io::FileLock lock;
  WrittenCache cache;
  std::string unusable;  // What it takes the place of.
  Take take;

  Status unwritable(const Status& error) const {
    return samples::unwritable(cache.files, error, unusable);
  }

  Result<GptIndexCache> put_in_place() {
    auto built = meg::samples::put_in_place(&cache);
    if (!built.has_value()) return unwritable(built.error());
    if (!unusable.empty()) built->outcome = CacheOutcome::kRebuilt;
    built->reason = std::move(unusable);
    return built;
  }
};

std::vector<std::string> GptIndexCacheFiles::parts() const {
  std::vector<std::string> parts = {indices.document_index, indices.sample_index,
                                    indices.shuffle_index};
  if (!description.empty()) parts.push_back(description);
  return parts;
}

GptIndexCacheGroup::GptIndexCacheGroup(int groups) {
  // Groups that run at once share the descriptors.
  const int64_t most =
      std::min(kMaxWritten, io::open_file_limit() / kDescriptorShare / kDescriptorsOfOne);
  max_written_ = static_cast<size_t>(std::max<int64_t>(most / groups, 1));
}

GptIndexCacheGroup::~GptIndexCacheGroup() = default;

void GptIndexCacheGroup::open(const GptIndexCacheRequest& request,
                              const megatron::MegatronVersion& version, Take take) {
  CacheSource source(request, version);
  Status status;
  try {
    status = open_or_write(&source, take);
  } catch (const std::bad_alloc&) {
    status = no_memory(source.dataset());
  }
  if (!status.ok()) take(std::move(status));
}

Status GptIndexCacheGroup::open_or_write(CacheSource* source, const Take& take) {
  // Look without the lock first: most runs find their caches, and looking changes none.
  MEG_ASSIGN_OR_RETURN(PlaceFinding found, look_at_places(source));
  if (!found.cache.has_value()) return lock_and_write(std::move(found.unusable), source, take);
  take(*std::move(found.cache));
  return Status();
}

Status GptIndexCacheGroup::lock_and_write(std::string unusable, CacheSource* source,
                                          const Take& take) {
  const GptIndexCacheFiles& files = source->request().places.back();
  MEG_RETURN_IF_ERROR(check_may_build(files.sidecar));
  auto lock = lock_files(files, [&] { return may_wait(source->request()); });
  if (!lock.has_value()) return unwritable(files, lock.error(), unusable);
  // Another process may have built it meanwhile.
  MEG_ASSIGN_OR_RETURN(PlaceFinding found, look_at_place(files, source));
  if (found.cache.has_value()) {
    take(*std::move(found.cache));
    return Status();
  }
  if (!found.unusable.empty()) unusable = std::move(found.unusable);
  MEG_RETURN_IF_ERROR(source->prepare());
  auto cache = write_for_place(files, source);
  if (!cache.has_value()) return unwritable(files, cache.error(), unusable);
  written_bytes_ += cache->bytes();
  written_.push_back({*std::move(lock), *std::move(cache), std::move(unusable), take});
  // Large caches gain nothing by waiting, and what they have not flushed would fill the page cache.
  if (written_.size() >= max_written_ || written_bytes_ >= kMaxBytes) commit();
  return Status();
}

bool GptIndexCacheGroup::may_wait(const GptIndexCacheRequest& request) {
  // Who holds the lock may itself wait for one of ours, and may even be this group.
  if (!written_.empty()) {
    commit();
    return true;
  }
  return !request.waiting || request.waiting(request.places.back().indices.sample_index);
}

void GptIndexCacheGroup::commit() {
  std::vector<io::AtomicFile*> parts;
  for (Written& written : written_) {
    for (io::AtomicFile& part : written.cache.parts) parts.push_back(&part);
  }
  // All contents reach the device before the first file is renamed, so a crash cannot leave a whole
  // name on half a file.
  const Status flushed = io::AtomicFile::flush_all(parts);
  written_bytes_ = 0;
  for (Written& each : std::exchange(written_, {})) {
    // Its lock is let go at the end of this turn, when its files stand in their place. written_ is
    // empty by now, as `take` may open further caches.
    Written written = std::move(each);
    written.take(flushed.ok() ? written.put_in_place() : written.unwritable(flushed));
  }
}

Result<std::optional<GptIndexCache>> find_gpt_index_cache(
    const GptIndexCacheRequest& request, const megatron::MegatronVersion& version) {
  CacheSource source(request, version);
  try {
    MEG_ASSIGN_OR_RETURN(PlaceFinding found, look_at_places(&source));
    return std::move(found.cache);
  } catch (const std::bad_alloc&) {
    return no_memory(source.dataset());
  }
}

Result<GptIndexCache> open_gpt_index_cache(const GptIndexCacheRequest& request,
                                           const megatron::MegatronVersion& version) {
  Result<GptIndexCache> opened = no_memory(*request.dataset);
  GptIndexCacheGroup group;
  group.open(request, version, [&](Result<GptIndexCache> cache) { opened = std::move(cache); });
  group.commit();
  return opened;
}

}  // namespace meg::samples
