#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/samples/gpt_sample.h"
#include "libmeg/samples/sample_dataset.h"

namespace meg::samples {

/// A micro-batch of b samples: row-major [b, L]; attention_mask [b, L, L] or empty.
struct MicroBatch {
  int64_t samples = 0;          ///< b
  int64_t sequence_length = 0;  ///< L
  std::span<int64_t> sample_numbers;
  std::span<int64_t> tokens;
  std::span<int64_t> labels;
  std::span<float> loss_mask;
  std::span<int64_t> position_ids;
  /// Whether position_ids are known to be 0 to L - 1 in every row.
  bool counts_positions = false;
  std::span<uint8_t> attention_mask;
  /// Lengths of the documents of each sample, one sample after another; empty unless attention
  /// masks are reset.
  std::span<const int64_t> document_lengths;
};

/// Allocates memory for micro-batches: plain memory by default; a trainer uses pinned memory.
struct BatchMemory {
  std::function<void*(size_t bytes)> allocate;  ///< 64-byte aligned; null if none is left.
  std::function<void(void* memory, size_t bytes)> release;
};

/// Memory for one micro-batch at a time. Allocates only in create(), except for document_lengths.
class BatchBuffer {
 public:
  struct Shape {
    int64_t samples = 0;          ///< Maximum number of samples.
    int64_t sequence_length = 0;  ///< L, at least 1.
    bool attention_mask = false;
  };

  /// memory: empty functions mean plain memory. kInvalidArgument if a size is below 1 or overflows,
  /// kResourceExhausted if memory is insufficient.
  static Result<BatchBuffer> create(const Shape& shape, const BatchMemory& memory);

  BatchBuffer(BatchBuffer&& other) noexcept;
  BatchBuffer& operator=(BatchBuffer&&) = delete;
  ~BatchBuffer();

  /// The numbers of the samples to read, filled by the sampler.
  std::vector<int64_t>& sample_numbers() { return sample_numbers_; }

  /// Reads the samples of sample_numbers(). The first sample that cannot be read ends it.
  /// text: room for one text of the dataset.
  Status read(const SampleDataset& dataset, const GptSampleOptions& options,
              std::span<int64_t> text);

  /// The result of read(). Valid until the next read().
  const MicroBatch& batch() const { return batch_; }

 private:
  BatchBuffer(const Shape& shape, BatchMemory memory, std::vector<int64_t> sample_numbers,
              void* block, size_t bytes);

  GptSampleFields fields(size_t row) const;

  Shape shape_;
  BatchMemory memory_;
  void* block_;
  size_t bytes_;
  std::vector<int64_t> sample_numbers_;
  std::vector<int64_t> document_lengths_;
  MicroBatch whole_;  ///< Of shape_.samples rows.
  MicroBatch batch_;
};

}  // namespace meg::samples
