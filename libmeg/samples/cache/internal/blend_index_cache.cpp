#include "libmeg/samples/cache/internal/blend_index_cache.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <numeric>

#include "libmeg/io/atomic_file.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/numpy/npy.h"
#include "libmeg/samples/cache/internal/cache_lock.h"
#include "libmeg/samples/internal/blend_index.h"

// The same protocol as for a single dataset's cache: look without a lock, take the lock, look
// again, build. The description is the file that appears last, and a cache without it is none.

namespace meg::samples {
namespace {

/// The indices as they are built.
struct BuiltIndex {
  std::vector<int16_t> datasets;
  std::vector<uint8_t> byte_datasets;  ///< In place of `datasets` before Megatron core.
  std::vector<int64_t> samples;
};

/// The files that hold them.
struct LoadedIndex {
  numpy::NpyFile datasets;
  numpy::NpyFile samples;
};

int64_t size_of(const BlendIndexRequest& request) {
  if (request.size.has_value()) return *request.size;
  const auto& sizes = request.dataset_sizes;
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

/// Each dataset must have as many samples as the blend draws from it.
Status check_draws(const BuiltIndex& built, const BlendIndexRequest& request) {
  std::vector<int64_t> drawn(request.dataset_sizes.size());
  for (size_t i = 0; i < built.samples.size(); ++i) {
    // Samples of one dataset are drawn in order, so its last one says how many.
    drawn[static_cast<size_t>(built.datasets[i])] = built.samples[i] + 1;
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i] > request.dataset_sizes[i]) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: {} split of the blend: expected at most its {} samples to be drawn, "
                        "found {}: {}",
                        request.prefixes[i], split_name(request.split), request.dataset_sizes[i],
                        drawn[i], request.remedy);
    }
  }
  return {};
}

void narrow(BuiltIndex& built, bool byte_indices) {
  if (!byte_indices) return;
  for (const int16_t dataset : built.datasets) {
    built.byte_datasets.push_back(static_cast<uint8_t>(dataset));
  }
}

Result<BuiltIndex> build(const BlendIndexRequest& request) {
  const auto size = static_cast<size_t>(size_of(request));
  BuiltIndex built;
  built.datasets.resize(size);
  built.samples.resize(size);
  if (request.size.has_value()) {
    MEG_RETURN_IF_ERROR(
        build_blend_index(request.weights, built.datasets, built.samples, request.cancelled));
  } else {
    MEG_RETURN_IF_ERROR(build_exhaustive_blend_index(request.dataset_sizes, built.datasets,
                                                     built.samples, request.cancelled));
  }
  if (!request.draws_beyond_end) MEG_RETURN_IF_ERROR(check_draws(built, request));
  narrow(built, request.byte_indices);
  return built;
}

BlendIndex in_memory(BuiltIndex built, bool byte_indices) {
  const auto owner = std::make_shared<const BuiltIndex>(std::move(built));
  BlendIndex index{.datasets = std::span(owner->datasets), .samples = owner->samples, .owner = {}};
  if (byte_indices) index.datasets = std::span(owner->byte_datasets);
  index.owner = owner;
  return index;
}

template <class T>
Result<io::AtomicFile> npy_file(const std::string& path, const std::vector<T>& values) {
  const std::array shape = {static_cast<int64_t>(values.size())};
  MEG_ASSIGN_OR_RETURN(const std::string header, numpy::npy_header(dtype_of<T>(), shape));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_under_lock(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(header))));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(values))));
  return file;
}

Status save(const BuiltIndex& built, const BlendIndexRequest& request) {
  const BlendIndexFiles& files = *request.files;
  MEG_ASSIGN_OR_RETURN(io::AtomicFile datasets,
                       request.byte_indices ? npy_file(files.dataset_index, built.byte_datasets)
                                            : npy_file(files.dataset_index, built.datasets));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile samples, npy_file(files.sample_index, built.samples));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile description,
                       io::AtomicFile::create_under_lock(files.description));
  MEG_RETURN_IF_ERROR(description.write(std::as_bytes(std::span(request.description))));
  // The files appear in this order. A cache that a crash takes back is only built again, so the
  // folder is not flushed.
  io::AtomicFile* const all[] = {&datasets, &samples, &description};
  return io::AtomicFile::commit_all(all, io::AtomicFile::Flush::kFiles);
}

bool present(const BlendIndexFiles& files) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(files.description, ignored) &&
         std::filesystem::is_regular_file(files.dataset_index, ignored) &&
         std::filesystem::is_regular_file(files.sample_index, ignored);
}

Status check_size(const numpy::NpyFile& file, int64_t size) {
  if (file.shape().size() == 1 && file.size() == size) return {};
  return make_error(StatusCode::kCorruption, "{}: expected one dimension of {} samples, found {}",
                    file.path(), size, file.size());
}

Result<BlendIndex> load(const BlendIndexRequest& request) {
  const BlendIndexFiles& files = *request.files;
  MEG_ASSIGN_OR_RETURN(const io::MappedFile description, io::MappedFile::open(files.description));
  // The name is a digest of this text; the text itself is what a collision or a half-written cache
  // would not have.
  if (description.text() != request.description) {
    return make_error(StatusCode::kCorruption, "{}: the description of another blend",
                      files.description);
  }
  auto loaded = std::make_shared<LoadedIndex>();
  MEG_ASSIGN_OR_RETURN(loaded->datasets, numpy::NpyFile::open(files.dataset_index));
  MEG_ASSIGN_OR_RETURN(loaded->samples, numpy::NpyFile::open(files.sample_index));
  const int64_t size = size_of(request);
  MEG_RETURN_IF_ERROR(check_size(loaded->datasets, size));
  MEG_RETURN_IF_ERROR(check_size(loaded->samples, size));
  BlendIndex index;
  if (request.byte_indices) {
    MEG_ASSIGN_OR_RETURN(index.datasets, loaded->datasets.values<uint8_t>());
  } else {
    MEG_ASSIGN_OR_RETURN(index.datasets, loaded->datasets.values<int16_t>());
  }
  MEG_ASSIGN_OR_RETURN(index.samples, loaded->samples.values<int64_t>());
  index.owner = std::move(loaded);
  return index;
}

}  // namespace

Result<BlendIndexCache> open_blend_index_cache(const BlendIndexRequest& request) {
  BlendIndexCache cache;
  if (!request.files.has_value()) {
    MEG_ASSIGN_OR_RETURN(BuiltIndex built, build(request));
    cache.index = in_memory(std::move(built), request.byte_indices);
    cache.outcome = CacheOutcome::kBuilt;
    return cache;
  }
  io::FileLock lock;
  // The second look is under the lock: another process may have built the cache while this one
  // waited.
  for (const bool locked : {false, true}) {
    if (locked) {
      const BlendIndexFiles& files = *request.files;
      MEG_RETURN_IF_ERROR(check_may_build(files.description));
      const std::vector<std::string> all = {files.dataset_index, files.sample_index,
                                            files.description};
      MEG_ASSIGN_OR_RETURN(lock, lock_cache(files.description, all, [&] {
                             return !request.waiting || request.waiting(files.description);
                           }));
    }
    if (!present(*request.files)) continue;
    Result<BlendIndex> found = load(request);
    if (found.has_value()) {
      cache.index = *std::move(found);
      return cache;
    }
    cache.reason = found.error().message();
  }
  cache.outcome = cache.reason.empty() ? CacheOutcome::kBuilt : CacheOutcome::kRebuilt;
  MEG_ASSIGN_OR_RETURN(BuiltIndex built, build(request));
  MEG_RETURN_IF_ERROR(save(built, request));
  // What was built is available; reading it back from the files would only cost time.
  cache.index = in_memory(std::move(built), request.byte_indices);
  return cache;
}

Result<std::optional<BlendIndex>> find_blend_index_cache(const BlendIndexRequest& request) {
  if (!request.files || !present(*request.files)) return std::optional<BlendIndex>();
  MEG_ASSIGN_OR_RETURN(BlendIndex found, load(request));
  return std::optional(std::move(found));
}

Status save_blend_index(std::vector<int16_t> datasets, std::vector<int64_t> samples,
                        const BlendIndexRequest& request) {
  BuiltIndex built;
  built.datasets = std::move(datasets);
  built.samples = std::move(samples);
  narrow(built, request.byte_indices);
  return save(built, request);
}

}  // namespace meg::samples
