#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "libmeg/core/result.h"
#include "libmeg/dataset/samples/batch_sampler.h"
#include "libmeg/dataset/samples/gpt_sample.h"
#include "libmeg/dataset/samples/sample_dataset.h"

namespace meg {

/// A micro-batch of b samples: row-major [b, L]; attention_mask [b, L, L] or empty.
struct MicroBatch {
  int64_t samples = 0;          ///< b
  int64_t sequence_length = 0;  ///< L
  std::span<int64_t> sample_numbers;
  std::span<int64_t> tokens;
  std::span<int64_t> labels;
  std::span<float> loss_mask;
  std::span<int64_t> position_ids;
  std::span<uint8_t> attention_mask;
};

/// Memory for micro-batches: plain by default; a trainer gives pinned memory here.
struct BatchMemory {
  std::function<void*(size_t bytes)> allocate;
  std::function<void(void* memory, size_t bytes)> release;
};

/// Reads the micro-batches of one data-parallel rank ahead, on background threads, in the sampler's
/// order whatever the number of threads.
class SampleLoader {
 public:
  struct Options {
    GptSampleOptions sample;
    int64_t micro_batch_size = 1;
    bool create_attention_mask = false;
    int threads = 2;          ///< --num-workers; 0: reads in next().
    int ahead = 4;            ///< Micro-batches read ahead, at least 1.
    BatchMemory memory = {};  ///< Default: 64-byte aligned plain memory.
  };

  /// dataset must outlive the loader.
  static Result<std::unique_ptr<SampleLoader>> create(const SampleDataset& dataset,
                                                      std::unique_ptr<BatchSampler> sampler,
                                                      const Options& options);
  virtual ~SampleLoader() = default;

  /// The next micro-batch, valid until the next call; nullptr at the end. The first error of any
  /// sample comes here, in order, and again at every later call.
  virtual Result<const MicroBatch*> next() = 0;
};

}  // namespace meg
