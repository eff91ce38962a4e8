#include "libmeg/samples/batches/micro_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "libmeg/base/bytes.h"

namespace meg::samples {
namespace {

/// A cache line, and the widest vector.
constexpr size_t kAlignment = 64;

BatchMemory plain_memory() {
  return {.allocate =
              [](size_t bytes) {
                return ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow);
              },
          .release = [](void* memory,
                        size_t) { ::operator delete (memory, std::align_val_t{kAlignment}); }};
}

constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

/// Bytes of one [b, L] array of the widest type; false where [b, L, L] of them do not fit.
bool checked_sizes(const BatchBuffer::Shape& shape, uint64_t* values, uint64_t* mask) {
  const auto length = static_cast<uint64_t>(shape.sequence_length);
  uint64_t bytes = 0;
  // Four arrays and their alignment: 64 bytes a value are more than all of them need.
  return checked_multiply(static_cast<uint64_t>(shape.samples), length, values) &&
         checked_multiply(*values, 64, &bytes) && checked_multiply(*values, length, mask) &&
         checked_add(*mask, bytes, &bytes) && bytes < (uint64_t{1} << 62);
}

/// Cuts arrays off a block of memory, one after another.
class Cutter {
 public:
  explicit Cutter(void* block) : next_(static_cast<std::byte*>(block)) {}

  template <class T>
  std::span<T> cut(size_t count) {
    T* const first = reinterpret_cast<T*>(next_);
    next_ += aligned(count * sizeof(T));
    return {first, count};
  }

 private:
  std::byte* next_;
};

template <class T>
std::span<T> rows(std::span<T> all, int64_t samples, int64_t whole_samples) {
  return all.first(all.size() / static_cast<size_t>(whole_samples) * static_cast<size_t>(samples));
}

}  // namespace

Result<BatchBuffer> BatchBuffer::create(const Shape& shape, const BatchMemory& memory) {
  uint64_t values = 0;
  uint64_t mask = 0;
  if (shape.samples < 1 || shape.sequence_length < 1 || !checked_sizes(shape, &values, &mask)) {
    return make_error(StatusCode::kInvalidArgument,
                      "micro-batch: expected 1 or more samples of 1 or more tokens that fit into "
                      "memory, found {} of {}",
                      shape.samples, shape.sequence_length);
  }
  // One block, allocated once: page-locked memory takes long to get, and its owner decides where it
  // comes from.
  const size_t bytes = 3 * aligned(values * sizeof(int64_t)) + aligned(values * sizeof(float)) +
                       (shape.attention_mask ? aligned(mask) : 0);
  BatchMemory used = memory.allocate ? memory : plain_memory();
  // Reserved here, so that drawing numbers later takes no memory from the loader's threads.
  std::vector<int64_t> sample_numbers;
  sample_numbers.reserve(static_cast<size_t>(shape.samples));
  void* const block = used.allocate(bytes);
  if (block == nullptr) {
    return make_error(StatusCode::kResourceExhausted,
                      "micro-batch: expected memory for {} samples of {} tokens ({} bytes), found "
                      "none",
                      shape.samples, shape.sequence_length, bytes);
  }
  return BatchBuffer(shape, std::move(used), std::move(sample_numbers), block, bytes);
}

BatchBuffer::BatchBuffer(const Shape& shape, BatchMemory memory,
                         std::vector<int64_t> sample_numbers, void* block, size_t bytes)
    : shape_(shape),
      memory_(std::move(memory)),
      block_(block),
      bytes_(bytes),
      sample_numbers_(std::move(sample_numbers)) {
  const auto values = static_cast<size_t>(shape.samples * shape.sequence_length);
  Cutter cutter(block);
  whole_.tokens = cutter.cut<int64_t>(values);
  whole_.labels = cutter.cut<int64_t>(values);
  whole_.position_ids = cutter.cut<int64_t>(values);
  whole_.loss_mask = cutter.cut<float>(values);
  if (shape.attention_mask) {
    whole_.attention_mask =
        cutter.cut<uint8_t>(values * static_cast<size_t>(shape.sequence_length));
  }
}

BatchBuffer::BatchBuffer(BatchBuffer&& other) noexcept
    : shape_(other.shape_),
      memory_(std::move(other.memory_)),
      block_(std::exchange(other.block_, nullptr)),
      bytes_(other.bytes_),
      sample_numbers_(std::move(other.sample_numbers_)),
      document_lengths_(std::move(other.document_lengths_)),
      whole_(other.whole_),
      batch_(other.batch_) {}

BatchBuffer::~BatchBuffer() {
  if (block_ != nullptr && memory_.release) memory_.release(block_, bytes_);
}

GptSampleFields BatchBuffer::fields(size_t row) const {
  const auto length = static_cast<size_t>(shape_.sequence_length);
  const size_t first = row * length;
  const std::span<uint8_t> mask = whole_.attention_mask;
  return {.tokens = whole_.tokens.subspan(first, length),
          .labels = whole_.labels.subspan(first, length),
          .loss_mask = whole_.loss_mask.subspan(first, length),
          .position_ids = whole_.position_ids.subspan(first, length),
          .attention_mask = mask.empty() ? mask : mask.subspan(first * length, length * length)};
}

Status BatchBuffer::read(const SampleDataset& dataset, const GptSampleOptions& options,
                         std::span<int64_t> text) {
  const auto samples = static_cast<int64_t>(sample_numbers_.size());
  if (samples > shape_.samples) {
    return make_error(StatusCode::kInvalidArgument,
                      "micro-batch: expected at most {} samples, found {}", shape_.samples,
                      samples);
  }
  document_lengths_.clear();
  for (size_t row = 0; row < sample_numbers_.size(); ++row) {
    const Status status =
        dataset.fill(sample_numbers_[row], options, text, fields(row), document_lengths_);
    if (!status.ok()) return status.with_prefix(fmt::format("sample {}", sample_numbers_[row]));
  }
  // A micro-batch may be smaller than the buffer (--full-validation takes one sample at a time):
  // arrays are cut to whole rows, the first ones.
  batch_ = {.samples = samples,
            .sequence_length = shape_.sequence_length,
            .sample_numbers = sample_numbers_,
            .tokens = rows(whole_.tokens, samples, shape_.samples),
            .labels = rows(whole_.labels, samples, shape_.samples),
            .loss_mask = rows(whole_.loss_mask, samples, shape_.samples),
            .position_ids = rows(whole_.position_ids, samples, shape_.samples),
            .counts_positions = !options.reset_position_ids,
            .attention_mask = rows(whole_.attention_mask, samples, shape_.samples),
            .document_lengths = document_lengths_};
  return Status();
}

}  // namespace meg::samples
