#include "libmeg/samples/batches/sample_loader.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "libmeg/base/condition_variable.h"

// Both loaders give the same micro-batches; what a run sees must not depend on --num-workers.
//
// ThreadedLoader: a thread claims a micro-batch (one at a time, under claim_mutex_, which is what
// keeps the sampler's order), reads it into its slot without a lock, and marks the slot ready. The
// caller takes slots in order, so one that is ready early waits for those before it. A slot belongs
// to its thread from claim() to finish(), then to the caller until the next call of next(), which
// gives it back. Nobody allocates after create().

namespace meg::samples {
namespace {

using Options = SampleLoader::Options;

Status out_of_memory() {
  return make_error(StatusCode::kResourceExhausted, "sample loader: no memory left");
}

Status check_options(const SampleDataset& dataset, const Options& options) {
  const auto check = [](std::string_view what, int64_t value, int64_t least) -> Status {
    if (value >= least) return Status();
    return make_error(StatusCode::kInvalidArgument,
                      "sample loader: {}: expected {} or more, found {}", what, least, value);
  };
  MEG_RETURN_IF_ERROR(check("sequence length", options.sample.sequence_length, 1));
  MEG_RETURN_IF_ERROR(check("micro batch size", options.micro_batch_size, 1));
  MEG_RETURN_IF_ERROR(check("threads", options.threads, 0));
  MEG_RETURN_IF_ERROR(check("micro-batches ahead", options.ahead, 1));
  const int64_t extra = options.sample.extra_token ? 1 : 0;
  if (dataset.text_length() - extra == options.sample.sequence_length) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "sample loader: texts of the dataset: expected {} tokens, found {}",
                    options.sample.sequence_length + extra, dataset.text_length());
}

Result<BatchBuffer> create_buffer(const Options& options) {
  return BatchBuffer::create(
      {.samples = options.micro_batch_size, .sequence_length = options.sample.sequence_length},
      options.memory);
}

/// Reads in next(), without threads.
class DirectLoader : public SampleLoader {
 public:
  DirectLoader(const SampleDataset& dataset, std::unique_ptr<BatchSampler> sampler,
               const Options& options, BatchBuffer buffer)
      : dataset_(dataset),
        sampler_(std::move(sampler)),
        sample_(options.sample),
        buffer_(std::move(buffer)),
        text_(static_cast<size_t>(dataset.text_length())) {}

  Result<const MicroBatch*> next() override {
    MEG_RETURN_IF_ERROR(failure_);
    try {
      if (!sampler_->next(buffer_.sample_numbers())) return nullptr;
      failure_ = buffer_.read(dataset_, sample_, text_);
    } catch (const std::bad_alloc&) {
      failure_ = out_of_memory();
    }
    MEG_RETURN_IF_ERROR(failure_);
    return &buffer_.batch();
  }

 private:
  const SampleDataset& dataset_;
  const std::unique_ptr<BatchSampler> sampler_;
  const GptSampleOptions sample_;
  BatchBuffer buffer_;
  std::vector<int64_t> text_;
  Status failure_;
};

/// A ring of buffers. Micro-batch number n is read into slot n % slots once the caller has given
/// that slot's last one back.
class ThreadedLoader : public SampleLoader {
 public:
  ThreadedLoader(const SampleDataset& dataset, std::unique_ptr<BatchSampler> sampler,
                 const Options& options, std::vector<BatchBuffer> buffers)
      : dataset_(dataset), sample_(options.sample), sampler_(std::move(sampler)) {
    slots_.reserve(buffers.size());
    for (BatchBuffer& buffer : buffers) slots_.emplace_back(std::move(buffer));
  }

  ~ThreadedLoader() override { stop(); }

  Status start(int threads);
  Result<const MicroBatch*> next() override;

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  struct Slot {
    explicit Slot(BatchBuffer given) : buffer(std::move(given)) {}

    BatchBuffer buffer;
    bool ready = false;
    Status status;
  };

  Slot& slot_of(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

  /// text: room for one text, of this thread alone.
  void run(std::span<int64_t> text);

  /// The slot of the next micro-batch with its sample numbers drawn; null where no more are to be
  /// read.
  Slot* claim();

  void finish(Slot& slot, Status status);
  void give_back();
  void stop();

  const SampleDataset& dataset_;
  const GptSampleOptions sample_;

  std::mutex claim_mutex_;  ///< Taken before ring_mutex_. Guards the next two.
  const std::unique_ptr<BatchSampler> sampler_;
  int64_t claimed_ = 0;  ///< Micro-batches

  std::mutex ring_mutex_;  ///< Guards what follows and the slots' ready and status.
  std::condition_variable slot_free_;
  std::condition_variable slot_ready_;
  int64_t given_back_ = 0;  ///< Micro-batches that the caller no longer uses.
  int64_t end_ = kNone;     ///< Number of micro-batches, once known.
  bool stopping_ = false;
  bool claimer_waits_ = false;
  const Slot* caller_waits_for_ = nullptr;

  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;

  int64_t handed_out_ = 0;  ///< Of the caller's thread alone, as is failure_.
  Status failure_;
};

Status ThreadedLoader::start(int threads) {
  try {
    for (int i = 0; i < threads; ++i) {
      // Allocated here, where a failure can still be returned to a caller.
      std::vector<int64_t> text(static_cast<size_t>(dataset_.text_length()));
      threads_.emplace_back([this, text = std::move(text)]() mutable { run(text); });
    }
  } catch (const std::system_error& error) {
    return make_error(StatusCode::kResourceExhausted, "sample loader: cannot start thread {}: {}",
                      threads_.size() + 1, error.what());
  }
  return Status();
}

void ThreadedLoader::run(std::span<int64_t> text) {
  while (Slot* const slot = claim()) {
    try {
      finish(*slot, slot->buffer.read(dataset_, sample_, text));
    } catch (const std::bad_alloc&) {
      finish(*slot, out_of_memory());
    }
  }
}

ThreadedLoader::Slot* ThreadedLoader::claim() {
  const std::lock_guard claim_lock(claim_mutex_);
  {
    std::unique_lock lock(ring_mutex_);
    const int64_t slots = std::ssize(slots_);
    const auto over = [&] { return stopping_ || end_ != kNone; };
    claimer_waits_ = true;
    // With claim_mutex_ held only one thread waits here, so one flag and notify_one() are enough.
    // Nobody is woken who does not wait: 3.8 instead of 4.2 µs of CPU time a sample
    // (docs/performance.md, "Samples beside megatron-core").
    slot_free_.wait(lock, [&] { return over() || claimed_ - given_back_ < slots; });
    claimer_waits_ = false;
    if (over()) return nullptr;
  }
  Slot& slot = slot_of(claimed_);
  try {
    if (sampler_->next(slot.buffer.sample_numbers())) {
      ++claimed_;
      return &slot;
    }
  } catch (const std::bad_alloc&) {
    // Numbers are missing from here on: this micro-batch is the last, and it fails.
    ++claimed_;
    finish(slot, out_of_memory());
  }
  const std::lock_guard lock(ring_mutex_);
  // Micro-batches that were claimed before are still read and handed out.
  end_ = claimed_;
  slot_ready_.notify_one();
  return nullptr;
}

void ThreadedLoader::finish(Slot& slot, Status status) {
  bool wake_caller = false;
  {
    const std::lock_guard lock(ring_mutex_);
    slot.status = std::move(status);
    slot.ready = true;
    wake_caller = caller_waits_for_ == &slot;
  }
  if (wake_caller) slot_ready_.notify_one();
}

/// Frees the slot of the last micro-batch that the caller was given.
void ThreadedLoader::give_back() {
  bool wake_claimer = false;
  {
    const std::lock_guard lock(ring_mutex_);
    if (given_back_ == handed_out_) return;
    ++given_back_;
    wake_claimer = claimer_waits_;
  }
  if (wake_claimer) slot_free_.notify_one();
}

Result<const MicroBatch*> ThreadedLoader::next() {
  MEG_RETURN_IF_ERROR(failure_);
  give_back();
  Slot& slot = slot_of(handed_out_);
  {
    std::unique_lock lock(ring_mutex_);
    caller_waits_for_ = &slot;
    slot_ready_.wait(lock, [&] { return slot.ready || end_ <= handed_out_; });
    caller_waits_for_ = nullptr;
    // Not ready and past the end: ready slots come first, also when the end is known.
    if (!slot.ready) return nullptr;
    slot.ready = false;
    failure_ = std::move(slot.status);
  }
  // What other threads have read beyond it is not handed out: errors come in the sampler's order.
  if (!failure_.ok()) stop();
  MEG_RETURN_IF_ERROR(failure_);
  ++handed_out_;
  return &slot.buffer.batch();
}

void ThreadedLoader::stop() {
  {
    const std::lock_guard lock(ring_mutex_);
    stopping_ = true;
  }
  slot_free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace

Result<std::unique_ptr<SampleLoader>> SampleLoader::create(const SampleDataset& dataset,
                                                           std::unique_ptr<BatchSampler> sampler,
                                                           const Options& options) {
  MEG_RETURN_IF_ERROR(check_options(dataset, options));
  using Created = std::unique_ptr<SampleLoader>;
  if (options.threads == 0) {
    MEG_ASSIGN_OR_RETURN(BatchBuffer buffer, create_buffer(options));
    return Created(
        std::make_unique<DirectLoader>(dataset, std::move(sampler), options, std::move(buffer)));
  }
  std::vector<BatchBuffer> buffers;
  for (int i = 0; i <= options.ahead; ++i) {  // One more for the batch in the caller's hands.
    MEG_ASSIGN_OR_RETURN(BatchBuffer buffer, create_buffer(options));
    buffers.push_back(std::move(buffer));
  }
  auto loader =
      std::make_unique<ThreadedLoader>(dataset, std::move(sampler), options, std::move(buffers));
  // Threads beyond the slots that may be filled ahead would only wait.
  MEG_RETURN_IF_ERROR(loader->start(std::min(options.threads, options.ahead)));
  return Created(std::move(loader));
}

}  // namespace meg::samples
