#include "libmeg/checkpoint/verify/logical_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/verify/internal/entry_crcs.h"
#include "libmeg/checkpoint/verify/internal/merged_stream.h"
#include "libmeg/checkpoint/verify/internal/parallel_scan.h"
#include "libmeg/checkpoint/verify/internal/tensor_scan.h"
#include "libmeg/io/digest.h"

namespace meg::checkpoint {
namespace {

constexpr int64_t kDigestBytes = int64_t{1} << 20;

/// One pass over the merged tensor gives its digests, by blocks of rows where these are requested,
/// and the CRCs of the shards that were read on the way: checking a file twice would cost as much
/// again. Digests are of the bytes of whole tensors, so they are the same in every layout.
class TensorDigester {
 public:
  TensorDigester(const DigestRequest& request, ParallelScan* scan)
      : request_(request),
        stream_(*request.parameter, *request.tensor),
        dtype_(request.tensor->dtype),
        narrows_(dtype_ == DType::kFloat32 && request.as_dtype != DType::kFloat32),
        scan_(*scan) {}

  Status run();

  std::vector<std::string> digests;
  std::vector<StorageSum> sums;

 private:
  Status digest_block(int64_t bytes);
  Result<std::span<const std::byte>> narrowed(std::span<const std::byte> tile);

  const DigestRequest& request_;
  MergedStream stream_;
  DType dtype_;
  bool narrows_;
  bool loses_ = false;
  ParallelScan& scan_;
  std::vector<std::byte> tile_, narrow_, widened_;
};

Status TensorDigester::run() {
  const std::vector<int64_t>& shape = request_.parameter->shape;
  const int64_t all_rows = shape.empty() ? 1 : shape[0];
  int64_t row = dtype_size(dtype_);
  for (size_t i = 1; i < shape.size(); ++i) row *= shape[i];
  const int64_t rows = request_.rows > 0 ? std::min(request_.rows, all_rows) : all_rows;
  const int64_t blocks = request_.block_rows > 0 ? request_.block_rows : rows;
  const int64_t step = std::max<int64_t>(std::min(blocks, rows), 1);
  tile_.resize(static_cast<size_t>(std::min(kDigestBytes, std::max<int64_t>(step * row, 1))));
  for (int64_t first = 0; first < std::max<int64_t>(rows, 1); first += step) {
    MEG_RETURN_IF_ERROR(digest_block(std::min(step, rows - first) * row));
  }
  // No digest rather than one of rounded values: the caller says that they do not fit.
  if (loses_) digests.clear();
  MEG_ASSIGN_OR_RETURN(sums, stream_.finish());
  return Status();
}

Status TensorDigester::digest_block(int64_t bytes) {
  io::Digest digest;
  for (int64_t at = 0; at < bytes;) {
    const auto size = std::min(bytes - at, static_cast<int64_t>(tile_.size()));
    const std::span<std::byte> tile = std::span(tile_).first(static_cast<size_t>(size));
    MEG_RETURN_IF_ERROR(stream_.read(tile));
    if (narrows_) {
      MEG_ASSIGN_OR_RETURN(const std::span<const std::byte> narrow, narrowed(tile));
      digest.add(narrow);
    } else {
      digest.add(tile);
    }
    at += size;
    MEG_RETURN_IF_ERROR(scan_.advance(tile.size()));
  }
  digests.push_back(digest.hex());
  return Status();
}

/// The tile in as_dtype; notes where that loses something, which shows when it is widened again.
Result<std::span<const std::byte>> TensorDigester::narrowed(std::span<const std::byte> tile) {
  narrow_.resize(tile.size() / 2);
  widened_.resize(tile.size());
  MEG_RETURN_IF_ERROR(convert_floats(DType::kFloat32, tile, request_.as_dtype, narrow_));
  MEG_RETURN_IF_ERROR(convert_floats(request_.as_dtype, narrow_, DType::kFloat32, widened_));
  loses_ |= std::memcmp(tile.data(), widened_.data(), tile.size()) != 0;
  return std::span<const std::byte>(narrow_);
}

using StoragesByPlace = std::map<std::pair<const io::PooledFile*, uint64_t>,  // file and offset
                                 std::pair<const TorchFile*, int>>;

StoragesByPlace storages_by_place(std::span<const std::shared_ptr<const TorchFile>> files) {
  StoragesByPlace found;
  for (const std::shared_ptr<const TorchFile>& file : files) {
    for (size_t i = 0; i < file->storages().size(); ++i) {
      const TorchStorage& storage = file->storages()[i];
      if (storage.bytes == 0) continue;
      found[{&file->file(), storage.file_offset}] = {file.get(), static_cast<int>(i)};
    }
  }
  return found;
}

/// CRCs of the storages that were read whole, then of everything else in the files, so that each
/// byte is read once.
Status check_crcs(const MegatronCheckpoint& checkpoint, const std::vector<StorageSum>& sums,
                  const DigestOptions& options) {
  TensorScanOptions scan{.check_finite = false, .workers = options.workers, .progress = {}};
  std::vector<std::shared_ptr<const TorchFile>> files;
  for (const RankFile& rank : checkpoint.files()) files.push_back(rank.file);
  const auto storages = storages_by_place(files);
  for (const StorageSum& sum : sums) {
    const FileExtent& extent = sum.recorded.extent;
    if (sum.crc != sum.recorded.crc) {
      return make_error(
          StatusCode::kCorruption, "{}: {}: expected CRC-32 {:08x} of {} bytes, found {:08x}",
          extent.file->path(), sum.recorded.name, sum.recorded.crc, extent.bytes, sum.crc);
    }
    // Storages of composed files have no single place.
    const auto storage = storages.find({extent.file, extent.offset});
    if (storage != storages.end()) scan.known_storages.insert(storage->second);
  }
  std::vector<Problem> problems;
  for (const std::shared_ptr<const TorchFile>& file : files) {
    for (Problem& problem : check_entry_crcs(*file)) {
      problems.push_back(std::move(problem));
    }
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<Problem> others, scan_tensors({}, files, scan));
  problems.insert(problems.end(), others.begin(), others.end());
  if (problems.empty()) return Status();
  return Status(StatusCode::kCorruption, problems.front().message());
}

}  // namespace

Result<std::vector<std::vector<std::string>>> digest_tensors(
    const MegatronCheckpoint& checkpoint, const std::vector<DigestRequest>& requests,
    const DigestOptions& options) {
  int64_t total_bytes = 0;
  for (const DigestRequest& request : requests) {
    int64_t elements = 1;
    for (const int64_t size : request.parameter->shape) elements *= size;
    total_bytes += elements * dtype_size(request.tensor->dtype);
  }
  std::vector<std::vector<std::string>> digests(requests.size());
  std::vector<std::vector<StorageSum>> sums(requests.size());
  ParallelScan scan(options.workers, total_bytes, options.progress);
  const auto digest = [&](size_t i) {
    TensorDigester digester(requests[i], &scan);
    MEG_RETURN_IF_ERROR(digester.run());
    digests[i] = std::move(digester.digests);
    sums[i] = std::move(digester.sums);
    return Status();
  };
  for (const Status& status : scan.run(requests.size(), digest)) MEG_RETURN_IF_ERROR(status);
  if (scan.is_cancelled()) return Status(StatusCode::kCancelled, "cancelled");
  if (options.check_crcs) {
    std::vector<StorageSum> all;
    for (const std::vector<StorageSum>& some : sums)
      all.insert(all.end(), some.begin(), some.end());
    MEG_RETURN_IF_ERROR(check_crcs(checkpoint, all, options));
  }
  return digests;
}

}  // namespace meg::checkpoint
