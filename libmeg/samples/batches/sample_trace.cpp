#include "libmeg/samples/batches/sample_trace.h"

#include <utility>

namespace meg::samples {
namespace {

/// Only the single order places a sample by arithmetic alone; a cyclic one would have to be drawn
/// up to the step.
Status check(const TraceSchedule& schedule) {
  if (schedule.type == DataloaderType::kSingle) return Status();
  return Status(StatusCode::kUnsupported, "`dataloader_type` cyclic: tracing is not supported yet");
}

/// Fills in where `sample`, consumed in step `step`, is met.
void place(const TraceSchedule& schedule, int64_t step, int64_t sample, TracedSample& traced) {
  // A step's samples are consecutive; each micro-batch of all ranks is cut into the ranks' parts,
  // as SingleSampler deals them.
  const int64_t within_step = sample - schedule.batches.consumed_before(step);
  const int64_t of_all_ranks = schedule.micro_batch_size * schedule.data_parallel_size;
  traced.step = step;
  traced.micro_batch = within_step / of_all_ranks;
  traced.rank = within_step % of_all_ranks / schedule.micro_batch_size;
  traced.sample = sample;
}

}  // namespace

Result<std::vector<TracedSample>> trace_step(const SampleDataset& dataset,
                                             const TraceSchedule& schedule, int64_t step,
                                             int64_t rank) {
  MEG_RETURN_IF_ERROR(check(schedule));
  if (step < 1 || step > schedule.steps) {
    return make_error(StatusCode::kOutOfRange, "step: expected 1 to {}, found {}", schedule.steps,
                      step);
  }
  if (rank < -1 || rank >= schedule.data_parallel_size) {
    return make_error(StatusCode::kOutOfRange, "data-parallel rank: expected 0 to {}, found {}",
                      schedule.data_parallel_size - 1, rank);
  }
  const int64_t begin = schedule.batches.consumed_before(step);
  const int64_t end = schedule.batches.consumed_before(step + 1);
  if (end > dataset.size()) {
    return make_error(StatusCode::kOutOfRange,
                      "step {}: expected samples {} to {} in the training set, found {} samples",
                      step, begin, end - 1, dataset.size());
  }
  std::vector<TracedSample> samples;
  for (int64_t sample = begin; sample < end; ++sample) {
    TracedSample traced;
    place(schedule, step, sample, traced);
    if (rank != -1 && traced.rank != rank) continue;
    MEG_ASSIGN_OR_RETURN(traced.source, dataset.source(sample));
    samples.push_back(std::move(traced));
  }
  return samples;
}

Result<std::vector<TracedSample>> trace_sequences(const SampleDataset& dataset,
                                                  const TraceSchedule& schedule,
                                                  int64_t dataset_number,
                                                  dataset::SequenceRange range) {
  MEG_RETURN_IF_ERROR(check(schedule));
  MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                       dataset.samples_with(dataset_number, range));
  std::vector<TracedSample> samples;
  for (const int64_t sample : numbers) {
    const int64_t step = schedule.batches.step_of(sample);
    // Sample numbers ascend, and the loader takes them in order: the rest comes later still.
    if (step > schedule.steps) break;
    TracedSample traced;
    place(schedule, step, sample, traced);
    MEG_ASSIGN_OR_RETURN(traced.source, dataset.source(sample));
    samples.push_back(std::move(traced));
  }
  return samples;
}

}  // namespace meg::samples
