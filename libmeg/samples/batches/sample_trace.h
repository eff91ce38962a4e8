#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/batches/batch_sampler.h"
#include "libmeg/samples/batches/batch_schedule.h"
#include "libmeg/samples/sample_dataset.h"

namespace meg::samples {

/// A sample as a training step uses it.
struct TracedSample {
  int64_t step = 0;         ///< From 1.
  int64_t micro_batch = 0;  ///< Within the step and rank, from 0.
  int64_t rank = 0;         ///< Data-parallel.
  int64_t sample = 0;       ///< Number in the training set.
  SampleSource source;
};

/// The order in which a run uses its samples.
struct TraceSchedule {
  BatchSchedule batches;
  DataloaderType type = DataloaderType::kSingle;
  int64_t micro_batch_size = 1;
  int64_t data_parallel_size = 1;
  int64_t steps = 0;  ///< Of the whole run. An incomplete last batch is not trained on.
};

/// The samples of step `step` (from 1), of one data-parallel rank or, with -1, of all.
/// kOutOfRange for a step or rank that the run does not have, kUnsupported for kCyclic.
Result<std::vector<TracedSample>> trace_step(const SampleDataset& dataset,
                                             const TraceSchedule& schedule, int64_t step,
                                             int64_t rank);

/// Every sample of the run that contains tokens of the sequences [range.begin, range.end) of
/// dataset number dataset_number (of dataset.prefixes()), in the order of the steps. A sample's
/// source lists all of its parts, including those from other documents.
Result<std::vector<TracedSample>> trace_sequences(const SampleDataset& dataset,
                                                  const TraceSchedule& schedule,
                                                  int64_t dataset_number,
                                                  dataset::SequenceRange range);

}  // namespace meg::samples
