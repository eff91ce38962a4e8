#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/samples/batches/batch_sampler.h"
#include "libmeg/samples/batches/micro_batch.h"
#include "libmeg/samples/gpt_sample.h"
#include "libmeg/samples/sample_dataset.h"

namespace meg::samples {

/// Prefetches the micro-batches of one data-parallel rank on background threads, in the sampler's
/// order whatever the number of threads. Memory is allocated once, in create().
class SampleLoader {
 public:
  struct Options {
    GptSampleOptions sample;
    int64_t micro_batch_size = 1;
    int threads = 2;          ///< --num-workers; 0: reads in next().
    int ahead = 4;            ///< Micro-batches read ahead, at least 1.
    BatchMemory memory = {};  ///< Default: 64-byte aligned plain memory.
  };

  /// dataset must outlive the loader.
  /// kInvalidArgument if a number is out of range or the dataset's texts are not of the length in
  /// options.sample; kResourceExhausted if memory or threads are insufficient.
  static Result<std::unique_ptr<SampleLoader>> create(const SampleDataset& dataset,
                                                      std::unique_ptr<BatchSampler> sampler,
                                                      const Options& options);

  /// Stops the threads immediately, whatever they are waiting for.
  virtual ~SampleLoader() = default;

  /// The next micro-batch, valid until the next call; nullptr at the end. The first error of any
  /// sample is returned here, in order, and again by every later call.
  virtual Result<const MicroBatch*> next() = 0;
};

}  // namespace meg::samples
