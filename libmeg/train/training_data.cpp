#include "libmeg/train/training_data.h"

// A loader for each split that the run reads. Splits that it does not read get none, so that their
// index caches are opened but no thread reads ahead in them.

namespace meg::train {

Result<TrainingData> TrainingData::create(
    samples::GptDatasets datasets, const BatchOptions& options,
    const samples::PerSplit<std::optional<int64_t>>& consumed) {
  TrainingData data;
  data.datasets_ = std::move(datasets);
  data.options_ = options;
  for (const samples::Split split : samples::kSplits) {
    const size_t number = samples::split_number(split);
    if (data.datasets_.splits[number] == nullptr || !consumed[number].has_value()) continue;
    MEG_RETURN_IF_ERROR(data.open(split, options.dataloader_type, *consumed[number]));
  }
  return data;
}

Status TrainingData::open(samples::Split split, samples::DataloaderType type, int64_t consumed) {
  // A micro-batch of one: the last, incomplete batch of a whole split would be dropped otherwise.
  const int64_t micro_batch_size =
      type == samples::DataloaderType::kFullValidation ? 1 : options_.micro_batch_size_of(split);
  Result<std::unique_ptr<samples::BatchSampler>> sampler =
      samples::BatchSampler::create({.type = type,
                                     .total_samples = size(split),
                                     .consumed_samples = consumed,
                                     .micro_batch_size = micro_batch_size,
                                     .data_parallel_rank = options_.data_parallel_rank,
                                     .data_parallel_size = options_.data_parallel_size});
  if (!sampler.has_value()) return sampler.error().with_prefix(samples::split_name(split));
  samples::SampleLoader::Options loading;
  loading.sample = options_.sample;
  loading.micro_batch_size = micro_batch_size;
  loading.threads = options_.num_workers;
  loading.memory = options_.memory;
  const size_t number = samples::split_number(split);
  MEG_ASSIGN_OR_RETURN(
      loaders_[number],
      samples::SampleLoader::create(*datasets_.splits[number], *std::move(sampler), loading));
  return {};
}

Status TrainingData::begin_full_validation(samples::Split split) {
  // A loader of its own each time, which begins at the first sample.
  return open(split, samples::DataloaderType::kFullValidation, 0);
}

Result<const samples::MicroBatch*> TrainingData::next(samples::Split split) {
  MEG_ASSIGN_OR_RETURN(const samples::MicroBatch* batch,
                       loaders_[samples::split_number(split)]->next());
  if (batch != nullptr) return batch;
  return make_error(StatusCode::kOutOfRange,
                    "{}: its {} samples do not contain a whole micro-batch",
                    samples::split_name(split), size(split));
}

}  // namespace meg::train
