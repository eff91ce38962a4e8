#include "libmeg/checkpoint/transfer/transfer_executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/transfer/internal/transfer_copier.h"
#include "libmeg/checkpoint/transfer/internal/transfer_work.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

using Works = std::vector<std::unique_ptr<TransferWork>>;

constexpr int64_t kChunkBytes = int64_t{512} << 10;  // a chunk and its copy fit the L2 cache
constexpr int64_t kLeastChunkBytes = int64_t{4} << 10;
constexpr int64_t kJobBytes = int64_t{32} << 20;
constexpr int64_t kWritebackBytes = int64_t{64} << 20;

/// Threads and chunk sizes that keep within the options' bytes.
struct Resources {
  int workers = 1;
  int64_t chunk_bytes = kChunkBytes;

  explicit Resources(const TransferOptions& options) {
    workers = options.workers > 0 ? options.workers : available_processors();
    const int64_t most = options.buffer_bytes / TransferCopier::buffer_bytes(kLeastChunkBytes);
    workers = static_cast<int>(std::clamp<int64_t>(most, 1, workers));
    const int64_t share = options.buffer_bytes / workers / TransferCopier::buffer_bytes(1);
    chunk_bytes = std::clamp(share, kLeastChunkBytes, kChunkBytes);
  }
};

Result<std::vector<TorchFileWriter>> create_writers(const TransferPlan& plan,
                                                    const std::string& folder) {
  std::vector<TorchFileWriter> writers;
  writers.reserve(plan.targets.size());
  for (const TransferTargetFile& target : plan.targets) {
    const fs::path path = fs::path(folder) / target.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return errno_error(error.value(), "cannot create folder " + path.parent_path().string());
    }
    MEG_ASSIGN_OR_RETURN(auto writer,
                         TorchFileWriter::create(path.string(), target.content, target.layout));
    writers.push_back(std::move(writer));
  }
  return writers;
}

/// Bytes that transfers write to targets.
int64_t bytes_to_write(const Works& works) {
  int64_t bytes = 0;
  for (const auto& work : works) {
    for (const auto& target : work->targets) {
      bytes += work->outer * (target.end - target.begin) * work->inner * work->target_size();
    }
  }
  return bytes;
}

/// The target file that a job writes to first; -1 where it only checks its source.
int first_target_file(const TransferJob& job) {
  const TransferWork& work = *job.work;
  const int64_t in_row = job.begin % (work.extent * work.inner);
  for (const auto& segment : work.segments) {
    if (segment.end * work.inner > in_row && !segment.targets.empty()) {
      return work.targets[static_cast<size_t>(segment.targets.front())].file;
    }
  }
  return -1;
}

/// Deals jobs out by target file round robin, each file's in their order: the system lets one
/// thread at a time write to a file, so threads that follow one another should meet different
/// files.
std::vector<TransferJob> dealt_by_target(const std::vector<TransferJob>& jobs) {
  std::map<int, std::vector<const TransferJob*>> by_file;
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
std::vector<TransferJob> ordered_jobs(const Works& works, int64_t chunk_bytes) {
  std::vector<TransferJob> jobs;
  for (const auto& work : works) split_work(*work, kJobBytes, chunk_bytes, &jobs);
  const auto place = [](const TransferJob& job) {
    const auto& sources = job.work->sources;
    if (sources.empty()) return std::tuple<std::string_view, uint64_t, int64_t>();
    const TransferReader& first = sources[0].reader;
    return std::tuple<std::string_view, uint64_t, int64_t>(first.file().path(), first.file_offset(),
                                                           job.begin);
  };
  std::sort(jobs.begin(), jobs.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return dealt_by_target(jobs);
}

/// What the threads of one execution share.
class Execution {
 public:
  Execution(std::vector<TorchFileWriter>* writers, Works works, const TransferOptions& options)
      : writers_(*writers),
        works_(std::move(works)),
        options_(options),
        resources_(options),
        waiting_bytes_(writers->size()) {}

  Status run();

 private:
  void work();
  void start_writeback(const TransferJob& job);
  Status finish_work(TransferWork& work);
  bool add_written(int64_t bytes);
  bool report();
  void fail(Status status);

  std::vector<TorchFileWriter>& writers_;
  Works works_;
  const TransferOptions& options_;
  Resources resources_;

  std::vector<std::atomic<int64_t>> waiting_bytes_;  // of each target file, not yet sent to disk
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
  total_bytes_ = bytes_to_write(works_);
  jobs_ = ordered_jobs(works_, resources_.chunk_bytes);
  for (const auto& one : works_) {
    if (one->jobs_left == 0) MEG_RETURN_IF_ERROR(finish_work(*one));
  }
  {
    const auto threads = std::min<size_t>(static_cast<size_t>(resources_.workers), jobs_.size());
    ThreadPool pool(static_cast<int>(threads));
    for (int i = 0; i < pool.threads(); ++i) pool.submit([this] { work(); });
    pool.wait();
  }
  if (!stopped_ && !report()) fail(Status(StatusCode::kCancelled, "cancelled"));
  MEG_RETURN_IF_ERROR(status_);
  for (TorchFileWriter& writer : writers_) MEG_RETURN_IF_ERROR(writer.finish());
  return Status();
}

/// One thread: takes job after job.
void Execution::work() {
  try {
    TransferCopier copier(resources_.chunk_bytes,
                          [this](int64_t bytes) { return add_written(bytes); });
    while (!stopped_) {
      const size_t index = next_job_++;
      if (index >= jobs_.size()) return;
      TransferWork& job_work = *jobs_[index].work;
      Status status = copier.run(jobs_[index]);
      if (status.ok()) start_writeback(jobs_[index]);
      if (status.ok() && --job_work.jobs_left == 0) status = finish_work(job_work);
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
    // As if every target took its share of every job.
    const double share =
        static_cast<double>(target.end - target.begin) / static_cast<double>(job.work->extent);
    const auto file = static_cast<size_t>(target.file);
    const auto bytes = static_cast<int64_t>(job_bytes * share);
    if ((waiting_bytes_[file] += bytes) < kWritebackBytes) continue;
    waiting_bytes_[file] = 0;
    writers_[file].start_writeback();
  }
}

Status Execution::finish_work(TransferWork& work) {
  std::vector<uint32_t> crcs;
  MEG_RETURN_IF_ERROR(work.finish(&crcs));
  for (size_t i = 0; i < crcs.size(); ++i) {
    const auto& target = work.targets[i];
    writers_[static_cast<size_t>(target.file)].set_crc(target.storage, crcs[i]);
  }
  return Status();
}

bool Execution::add_written(int64_t bytes) {
  written_ += bytes;
  if (!options_.progress || stopped_) return !stopped_;
  const std::unique_lock lock(progress_mutex_, std::try_to_lock);
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

Status execute_transfers(const TransferPlan& plan, const std::string& folder,
                         const TransferOptions& options) {
  try {
    MEG_ASSIGN_OR_RETURN(auto writers, create_writers(plan, folder));
    MEG_ASSIGN_OR_RETURN(auto works, prepare_transfers(plan, writers, options.check_crcs));
    return Execution(&writers, std::move(works), options).run();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the plan of the transfers");
  } catch (const std::system_error& error) {
    return errno_error(error.code().value(), "cannot start threads");
  }
}

}  // namespace meg::checkpoint
