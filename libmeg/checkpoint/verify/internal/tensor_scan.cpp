#include "libmeg/checkpoint/verify/internal/tensor_scan.h"

#include <algorithm>
#include <set>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/verify/internal/parallel_scan.h"
#include "libmeg/checkpoint/verify/internal/scan_findings.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

/// Bytes that one worker reads before it looks at them, all tensors of a group together.
constexpr int64_t kTileBytes = int64_t{1} << 20;
constexpr int64_t kLeastTileElements = 1024;
/// Elements of a group that are one task.
constexpr int64_t kTaskElements = int64_t{1} << 23;

size_t byte_count(DType dtype, int64_t elements) {
  return static_cast<size_t>(elements) * static_cast<size_t>(dtype_size(dtype));
}

/// A range of a group's elements.
struct Task {
  size_t group = 0;
  int64_t begin = 0, end = 0;
  GroupFindings findings;
};

/// The buffers of one task.
struct Tiles {
  std::vector<std::vector<std::byte>> tensors;
  std::vector<std::byte> rounded;
};

/// Reads every tensor once for all checks: CRC, NaN and Inf, negative second moments, and the
/// relations between copies. Tensors of a group have elements at equal places (replicas, or a
/// master and its weight) and are read side by side, tile by tile, so comparing them takes no
/// memory that grows with them. Storages that no tensor covers wholly have their CRC summed in
/// tasks of their own.
class TensorScanner {
 public:
  TensorScanner(std::span<const ScanGroup> groups,
                std::span<const std::shared_ptr<const TorchFile>> files,
                const TensorScanOptions& options);

  Result<std::vector<Problem>> run();

 private:
  void add_group(size_t index);
  void add_storages(const std::shared_ptr<const TorchFile>& file);
  Status scan(Task* task, ParallelScan* pieces);
  Status scan_tile(Task* task, int64_t first, int64_t count, Tiles* tiles);
  void look_at(const ScannedTensor& tensor, std::span<const std::byte> run, int64_t first,
               TensorFinding* finding) const;
  Status relate(const ScanGroup& group, const TensorRelation& relation,
                std::span<const std::span<std::byte>> runs, int64_t first, Tiles* tiles,
                RelationFinding* finding) const;
  Status sum_storage(StorageFinding* finding, ParallelScan* pieces);
  std::vector<GroupFindings> joined_findings();

  std::span<const ScanGroup> groups_;
  const TensorScanOptions& options_;
  std::set<std::pair<const TorchFile*, int>> covered_;
  std::vector<Task> tasks_;
  std::vector<StorageFinding> storages_;
  int64_t total_bytes_ = 0;
};

TensorScanner::TensorScanner(std::span<const ScanGroup> groups,
                             std::span<const std::shared_ptr<const TorchFile>> files,
                             const TensorScanOptions& options)
    : groups_(groups), options_(options), covered_(options.known_storages) {
  for (size_t i = 0; i < groups.size(); ++i) add_group(i);
  if (!options.check_crcs) return;
  for (const std::shared_ptr<const TorchFile>& file : files) add_storages(file);
}

void TensorScanner::add_group(size_t index) {
  const ScanGroup& group = groups_[index];
  for (const ScannedTensor& tensor : group.tensors) {
    if (covers_storage(tensor)) covered_.insert({tensor.file.get(), tensor.view.storage});
    total_bytes_ += tensor.view.bytes();
  }
  const int64_t elements = group.tensors.front().view.numel();
  int64_t begin = 0;
  // Add at least one task, so that a group without elements has its findings too.
  do {
    const int64_t end = std::min(elements, begin + kTaskElements);
    tasks_.push_back(
        {.group = index, .begin = begin, .end = end, .findings = GroupFindings(group)});
    begin = end;
  } while (begin < elements);
}

void TensorScanner::add_storages(const std::shared_ptr<const TorchFile>& file) {
  for (size_t i = 0; i < file->storages().size(); ++i) {
    const int storage = static_cast<int>(i);
    const TorchStorage& claimed = file->storages()[i];
    if (!claimed.crc.has_value() || !covered_.insert({file.get(), storage}).second) continue;
    storages_.push_back({.file = file, .storage = storage, .crc = 0, .status = {}});
    total_bytes_ += static_cast<int64_t>(claimed.bytes);
  }
}

Result<std::vector<Problem>> TensorScanner::run() {
  ParallelScan pieces(options_.workers, total_bytes_, options_.progress);
  const size_t tasks = tasks_.size();
  const std::vector<Status> results = pieces.run(tasks + storages_.size(), [&](size_t i) {
    return i < tasks ? scan(&tasks_[i], &pieces) : sum_storage(&storages_[i - tasks], &pieces);
  });
  if (pieces.is_cancelled()) return Status(StatusCode::kCancelled, "cancelled");
  for (size_t i = 0; i < results.size(); ++i) {
    // A machine without memory says nothing of the checkpoint; a file that cannot be read does, and
    // becomes a finding.
    if (results[i].code() == StatusCode::kResourceExhausted) return results[i];
    (i < tasks ? tasks_[i].findings.status : storages_[i - tasks].status) = results[i];
  }
  return scan_problems(groups_, joined_findings(), storages_, options_);
}

Status TensorScanner::scan(Task* task, ParallelScan* pieces) {
  const ScanGroup& group = groups_[task->group];
  int64_t width = 0;
  for (const ScannedTensor& tensor : group.tensors) width += dtype_size(tensor.view.dtype);
  const int64_t step =
      std::min(std::max(kTileBytes / width, kLeastTileElements), task->end - task->begin);
  Tiles tiles;
  for (const ScannedTensor& tensor : group.tensors)
    tiles.tensors.emplace_back(byte_count(tensor.view.dtype, step));
  tiles.rounded.resize(byte_count(DType::kFloat32, step));
  for (int64_t first = task->begin; first < task->end; first += step) {
    const int64_t count = std::min(step, task->end - first);
    MEG_RETURN_IF_ERROR(scan_tile(task, first, count, &tiles));
    MEG_RETURN_IF_ERROR(pieces->advance(static_cast<size_t>(count * width)));
  }
  return Status();
}

Status TensorScanner::scan_tile(Task* task, int64_t first, int64_t count, Tiles* tiles) {
  const ScanGroup& group = groups_[task->group];
  std::vector<std::span<std::byte>> runs;
  for (size_t i = 0; i < group.tensors.size(); ++i) {
    const ScannedTensor& tensor = group.tensors[i];
    const auto run = std::span(tiles->tensors[i]).first(byte_count(tensor.view.dtype, count));
    MEG_RETURN_IF_ERROR(tensor.file->read_elements(tensor.view, first, run));
    look_at(tensor, run, first, &task->findings.tensors[i]);
    runs.push_back(run);
  }
  for (size_t i = 0; i < group.relations.size(); ++i) {
    MEG_RETURN_IF_ERROR(
        relate(group, group.relations[i], runs, first, tiles, &task->findings.relations[i]));
  }
  return Status();
}

void TensorScanner::look_at(const ScannedTensor& tensor, std::span<const std::byte> run,
                            int64_t first, TensorFinding* finding) const {
  if (options_.check_crcs && covers_storage(tensor)) finding->crc = io::crc32(run, finding->crc);
  if (!options_.check_finite && !tensor.non_negative) return;
  FloatScan here;
  scan_floats(tensor.view.dtype, run, first, tensor.non_negative, &here);
  const auto text_at = [&](int64_t place) {
    return element_text(tensor.view.dtype,
                        run.data() + byte_count(tensor.view.dtype, place - first));
  };
  FloatScan& before = finding->floats;
  // The value is converted to text while its tile is in memory, only for the first one.
  if (before.not_finite == 0 && here.not_finite > 0) {
    finding->not_finite_text = text_at(here.first_not_finite);
  }
  if (before.negative == 0 && here.negative > 0) {
    finding->negative_text = text_at(here.first_negative);
  }
  before.add(here);
}

Status TensorScanner::relate(const ScanGroup& group, const TensorRelation& relation,
                             std::span<const std::span<std::byte>> runs, int64_t first,
                             Tiles* tiles, RelationFinding* finding) const {
  const DType dtype = group.tensors[relation.second].view.dtype;
  const std::span<const std::byte> found = runs[relation.second];
  std::span<const std::byte> expected = runs[relation.first];
  if (relation.kind == TensorRelation::Kind::kRounded) {
    const std::span<std::byte> rounded = std::span(tiles->rounded).first(found.size());
    MEG_RETURN_IF_ERROR(convert_floats(DType::kFloat32, expected, dtype, rounded));
    expected = rounded;
  }
  finding->append(compare_runs(dtype, expected, found, first));
  return Status();
}

Status TensorScanner::sum_storage(StorageFinding* finding, ParallelScan* pieces) {
  const TorchStorage& storage = finding->file->storages()[static_cast<size_t>(finding->storage)];
  const auto size = static_cast<int64_t>(storage.bytes);
  std::vector<std::byte> tile(static_cast<size_t>(std::min(size, kTileBytes)));
  for (int64_t at = 0; at < size; at += kTileBytes) {
    const auto run = std::span(tile).first(static_cast<size_t>(std::min(size - at, kTileBytes)));
    MEG_RETURN_IF_ERROR(
        finding->file->read_storage(finding->storage, static_cast<uint64_t>(at), run));
    finding->crc = io::crc32(run, finding->crc);
    MEG_RETURN_IF_ERROR(pieces->advance(run.size()));
  }
  return Status();
}

/// The findings of every group, joined over its tasks in order.
std::vector<GroupFindings> TensorScanner::joined_findings() {
  std::vector<GroupFindings> joined(groups_.size());
  for (Task& task : tasks_) {
    const ScanGroup& group = groups_[task.group];
    GroupFindings& whole = joined[task.group];
    if (task.begin == 0) {
      whole = std::move(task.findings);
      continue;
    }
    if (whole.status.ok()) whole.status = task.findings.status;
    for (size_t i = 0; i < group.tensors.size(); ++i) {
      const size_t bytes = byte_count(group.tensors[i].view.dtype, task.end - task.begin);
      whole.tensors[i].append(task.findings.tensors[i], bytes);
    }
    for (size_t i = 0; i < group.relations.size(); ++i) {
      whole.relations[i].append(task.findings.relations[i]);
    }
  }
  return joined;
}

}  // namespace

Result<std::vector<Problem>> scan_tensors(std::span<const ScanGroup> groups,
                                          std::span<const std::shared_ptr<const TorchFile>> files,
                                          const TensorScanOptions& options) {
  return TensorScanner(groups, files, options).run();
}

}  // namespace meg::checkpoint
