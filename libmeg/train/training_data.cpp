#include "libmeg/train/training_data.h"

namespace meg::train {

Result<TrainingData> TrainingData::create(GptDatasets datasets, const BatchOptions& options,
                                          const PerSplit<int64_t>& consumed) {
  TrainingData data;
  data.datasets_ = std::move(datasets);
  for (const Split split : kSplits) {
    const auto& dataset = data.datasets_.splits[split_number(split)];
    if (dataset == nullptr) continue;
    BatchSampler::Options sampling;
    sampling.type = options.dataloader_type;
    sampling.total_samples = dataset->size();
    sampling.consumed_samples = consumed[split_number(split)];
    sampling.micro_batch_size = options.micro_batch_size;
    sampling.data_parallel_rank = options.data_parallel_rank;
    sampling.data_parallel_size = options.data_parallel_size;
    if (sampling.consumed_samples >= sampling.total_samples && split != Split::kTrain) continue;
    Result<std::unique_ptr<BatchSampler>> sampler = BatchSampler::create(sampling);
    if (!sampler.has_value()) return sampler.error().with_prefix(split_name(split));
    SampleLoader::Options loading;
    loading.sample = options.sample;
    loading.micro_batch_size = options.micro_batch_size;
    loading.create_attention_mask = options.create_attention_mask;
    loading.threads = options.num_workers;
    loading.memory = options.memory;
    MEG_ASSIGN_OR_RETURN(data.loaders_[split_number(split)],
                         SampleLoader::create(*dataset, *std::move(sampler), loading));
  }
  return data;
}

Result<const MicroBatch*> TrainingData::next(Split split) {
  MEG_ASSIGN_OR_RETURN(const MicroBatch* batch, loaders_[split_number(split)]->next());
  if (batch != nullptr) return batch;
  return make_error(StatusCode::kOutOfRange, "{}: no whole micro-batch is left of its {} samples",
                    split_name(split), datasets_.splits[split_number(split)]->size());
}

}  // namespace meg::train
