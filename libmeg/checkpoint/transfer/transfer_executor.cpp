#include "libmeg/checkpoint/transfer/transfer_executor.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/checkpoint/transfer/internal/transfer_copier.h"
#include "libmeg/checkpoint/transfer/internal/transfer_work.h"

namespace meg::checkpoint {
namespace {

using Works = std::vector<std::unique_ptr<TransferWork>>;

/// Below this a budget costs threads instead: smaller reads would be system calls alone.
constexpr int64_t kLeastChunkBytes = int64_t{4} << 10;
constexpr int64_t kJobBytes = int64_t{32} << 20;
/// Measured on a disk: 0.07 to 0.18 s are left to the flush at the end instead of 0.60 to 0.88 s
/// (docs/performance.md, "checkpoint_util beside cp and PyTorch").
constexpr int64_t kWritebackBytes = int64_t{64} << 20;

/// Threads and chunk sizes that keep within the options' bytes.
struct Resources {
  int workers = 1;
  int64_t chunk_bytes = kTransferChunkBytes;
  int64_t transposed_bytes = 0;  ///< What sources may keep for a thread.

  explicit Resources(const TransferOptions& options) {
    workers = options.workers > 0 ? options.workers : available_processors();
    const int64_t most = options.buffer_bytes / TransferCopier::buffer_bytes(kLeastChunkBytes);
    workers = static_cast<int>(std::clamp<int64_t>(most, 1, workers));
    const int64_t share = options.buffer_bytes / workers / TransferCopier::buffer_bytes(1);
    chunk_bytes = std::clamp(share, kLeastChunkBytes, kTransferChunkBytes);
    transposed_bytes = options.buffer_bytes / workers - TransferCopier::buffer_bytes(chunk_bytes);
  }
};

/// Bytes that transfers write to targets.
int64_t bytes_to_write(const Works& works) {
  int64_t bytes = 0;
  for (const auto& work : works) {
    for (const auto& target : work->targets) {
      bytes += target.box.elements() * work->target_size();
    }
  }
  return bytes;
}

/// The file that a job writes to first; nullptr where it writes to none.
const io::PooledFile* first_target_file(const TransferJob& job) {
  const TransferWork& work = *job.work;
  const int64_t row = work.row_elements(work.slab_axis);
  for (int64_t position = job.begin; position < job.end;) {
    const Slab slab = work.slab_at(position, (job.end - position) / row);
    for (const auto& target : work.targets) {
      if (run_in(target.box, slab).has_value()) return target.sink->file();
    }
    position += (slab.end - slab.begin) * row;
  }
  return nullptr;
}

/// Takes jobs of all target files alternately, each file's in their order: the system lets one
/// thread at a time write to a file, so threads that follow one another should meet different
/// files.
std::vector<TransferJob> dealt_by_target(const std::vector<TransferJob>& jobs) {
  std::map<const io::PooledFile*, std::vector<const TransferJob*>> by_file;
  size_t longest = 0;
  for (const TransferJob& job : jobs) {
    auto& file = by_file[first_target_file(job)];
    file.push_back(&job);
    longest = std::max(longest, file.size());
  }
  std::vector<TransferJob> dealt;
  dealt.reserve(jobs.size());
  for (size_t i = 0; i < longest; ++i) {
    for (const auto& [file, own] : by_file) {
      // Files with fewer jobs are spread over all rounds, so that none is left alone at the end.
      const size_t begin = i * own.size() / longest;
      const size_t end = (i + 1) * own.size() / longest;
      for (size_t k = begin; k < end; ++k) dealt.push_back(*own[k]);
    }
  }
  return dealt;
}

/// Jobs in the order in which their bytes lie in the source files, dealt out by target file.
std::vector<TransferJob> ordered_jobs(const Works& works) {
  std::vector<TransferJob> jobs;
  for (const auto& work : works) split_work(*work, kJobBytes, &jobs);
  using Place = std::tuple<std::string_view, uint64_t, int64_t>;
  const auto place = [](const TransferJob& job) {
    const auto& sources = job.work->sources;
    const auto extent = sources.empty() ? std::nullopt : sources[0].reader.source().file_extent();
    if (!extent.has_value()) return Place("", 0, job.begin);
    return Place(extent->file->path(), extent->offset, job.begin);
  };
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return dealt_by_target(jobs);
}

/// What the threads of one execution share.
///
/// One execution: every thread takes the next job of a list that is fixed before the first one
/// starts, and copies it with buffers of its own. Threads meet only in the counters, in the CRCs of
/// a work (once a job) and in the sinks, to which they write distinct bytes. The first error or a
/// progress callback that returns false stops the others after their current slab or job; the
/// targets are then incomplete and the caller drops them.
class Execution {
 public:
  Execution(PreparedTransfers prepared, const Resources& resources, const TransferOptions& options)
      : prepared_(std::move(prepared)), options_(options), resources_(resources) {}

  Status run();

 private:
  void work();
  void start_writeback(const TransferJob& job);
  bool add_written(int64_t bytes);
  bool report();
  void fail(Status status);

  PreparedTransfers prepared_;
  const TransferOptions& options_;
  Resources resources_;

  // The bytes of each target file not yet sent to disk. No file is added while threads run.
  std::unordered_map<const io::PooledFile*, std::atomic<int64_t>> waiting_bytes_;
  std::vector<TransferJob> jobs_;
  std::atomic<size_t> next_job_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex status_mutex_;
  Status status_;

  int64_t total_bytes_ = 0;
  std::atomic<int64_t> written_ = 0;
  std::mutex progress_mutex_;
  std::chrono::steady_clock::time_point last_report_;
};

Status Execution::run() {
  total_bytes_ = bytes_to_write(prepared_.works);
  jobs_ = ordered_jobs(prepared_.works);
  for (const auto& one : prepared_.works) {
    for (const auto& target : one->targets) waiting_bytes_.try_emplace(target.sink->file(), 0);
  }
  {
    const auto threads = std::min<size_t>(static_cast<size_t>(resources_.workers), jobs_.size());
    ThreadPool pool(static_cast<int>(threads));
    for (int i = 0; i < pool.threads(); ++i) pool.submit([this] { work(); });
    pool.wait();
  }
  // Calls in between are limited in time and skipped under contention; this one tells the end.
  if (!stopped_ && !report()) fail(Status(StatusCode::kCancelled, "cancelled"));
  return status_;
}

/// One thread: takes job after job.
void Execution::work() {
  try {
    share_transposed_memory(resources_.transposed_bytes);
    TransferCopier copier(resources_.chunk_bytes,
                          [this](int64_t bytes) { return add_written(bytes); });
    while (!stopped_) {
      const size_t index = next_job_++;
      if (index >= jobs_.size()) return;
      Status status = copier.run(jobs_[index]);
      if (status.ok()) start_writeback(jobs_[index]);
      if (!status.ok()) fail(std::move(status));
    }
  } catch (const std::bad_alloc&) {
    fail(Status(StatusCode::kResourceExhausted, "no memory for the buffers of a transfer"));
  }
}

/// Lets the device write while the next jobs run, so that the caller's flush finds little left.
void Execution::start_writeback(const TransferJob& job) {
  const auto job_bytes = static_cast<double>((job.end - job.begin) * job.work->target_size());
  for (const auto& target : job.work->targets) {
    const io::PooledFile* file = target.sink->file();
    if (file == nullptr) continue;
    // Assumes that every target takes its share of every job.
    const double share =
        static_cast<double>(target.box.elements()) / static_cast<double>(job.work->elements());
    std::atomic<int64_t>& waiting = waiting_bytes_.find(file)->second;
    if ((waiting += static_cast<int64_t>(job_bytes * share)) < kWritebackBytes) continue;
    waiting = 0;
    const auto open = file->pin();
    // This is only a head start, whose result does not matter: the flush that the caller waits for
    // reports errors.
    if (open.has_value()) ::sync_file_range((*open)->get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  }
}

bool Execution::add_written(int64_t bytes) {
  written_ += bytes;
  if (!options_.progress || stopped_) return !stopped_;
  const std::unique_lock lock(progress_mutex_, std::try_to_lock);
  // A thread that finds another one reporting continues copying instead of waiting for the
  // terminal.
  if (!lock.owns_lock()) return true;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_report_ < std::chrono::milliseconds(20)) return true;
  last_report_ = now;
  return report();
}

bool Execution::report() {
  if (!options_.progress) return true;
  Progress progress;
  progress.bytes = written_;
  progress.total_bytes = total_bytes_;
  return options_.progress(progress);
}

void Execution::fail(Status status) {
  const std::lock_guard lock(status_mutex_);
  if (status_.ok()) status_ = std::move(status);
  stopped_ = true;
}

}  // namespace

Status run_transfers(std::span<const TensorTransfer> transfers,
                     std::span<const std::unique_ptr<TensorSink>> sinks,
                     const TransferOptions& options) {
  try {
    const Resources resources(options);
    MEG_ASSIGN_OR_RETURN(
        PreparedTransfers prepared,
        prepare_transfers(transfers, sinks, resources.chunk_bytes, options.check_crcs));
    return Execution(std::move(prepared), resources, options).run();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the plan of the transfers");
  } catch (const std::system_error& error) {
    return errno_error(error.code().value(), "cannot start threads");
  }
}

}  // namespace meg::checkpoint
