#include "libmeg/samples/batches/internal/cyclic_sampler.h"

#include "libmeg/numpy/torch_randperm.h"

namespace meg::samples {
namespace {

/// What torch_randperm's 32-bit numbers hold.
constexpr int64_t kMaxSamples = int64_t{1} << 32;

int64_t part_size(const BatchSampler::Options& options, int64_t batch_size) {
  const int64_t parts_of = options.data_sharding ? batch_size : options.micro_batch_size;
  return options.total_samples / parts_of * options.micro_batch_size;
}

}  // namespace

Result<std::unique_ptr<BatchSampler>> CyclicSampler::create(const Options& options) {
  const int64_t batch_size = options.micro_batch_size * options.data_parallel_size;
  if (options.total_samples < batch_size) {
    return make_error(StatusCode::kInvalidArgument,
                      "batch sampler: expected at least {} samples (micro batch size {} times "
                      "data-parallel size {}), found {}",
                      batch_size, options.micro_batch_size, options.data_parallel_size,
                      options.total_samples);
  }
  if (part_size(options, batch_size) > kMaxSamples) {
    return make_error(StatusCode::kInvalidArgument,
                      "batch sampler: expected at most {} samples to shuffle, found {}",
                      kMaxSamples, part_size(options, batch_size));
  }
  const int64_t epoch_samples = options.total_samples - options.total_samples % batch_size;
  if (options.consumed_samples % epoch_samples % batch_size != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "batch sampler: consumed samples of the epoch: expected a multiple of {} "
                      "(micro batch size {} times data-parallel size {}), found {} ({} less whole "
                      "epochs of {})",
                      batch_size, options.micro_batch_size, options.data_parallel_size,
                      options.consumed_samples % epoch_samples, options.consumed_samples,
                      epoch_samples);
  }
  return std::unique_ptr<BatchSampler>(new CyclicSampler(options));
}

CyclicSampler::CyclicSampler(const Options& options)
    : options_(options),
      batch_size_(options.micro_batch_size * options.data_parallel_size),
      epoch_samples_(options.total_samples - options.total_samples % batch_size_),
      part_size_(part_size(options, batch_size_)),
      consumed_(options.consumed_samples) {}

void CyclicSampler::begin_epoch() {
  order_.resize(static_cast<size_t>(part_size_));
  // The epoch's number is the seed, so that a run that is resumed finds the same order and
  // continues in the middle of it.
  numpy::torch_randperm(static_cast<uint64_t>(consumed_ / epoch_samples_), order_);
  const int64_t consumed = consumed_ % epoch_samples_;
  if (options_.data_sharding) {
    // Each rank has taken its share of the epoch from its own part.
    place_ = consumed / options_.data_parallel_size;
    first_sample_ = options_.data_parallel_rank * part_size_;
  } else {
    // One order for all ranks, who take every data_parallel_size-th sample of it.
    place_ = consumed + options_.data_parallel_rank;
    stride_ = options_.data_parallel_size;
  }
}

bool CyclicSampler::next(std::vector<int64_t>& samples) {
  // Without sharding a part may hold more than the epoch's whole batches: the first ranks then draw
  // one batch more of it than the others do, as in Megatron, and their next epoch begins later.
  const int64_t last = (options_.micro_batch_size - 1) * stride_;
  if (order_.empty() || place_ + last >= part_size_) begin_epoch();
  samples.clear();
  for (int64_t i = 0; i < options_.micro_batch_size; ++i) {
    samples.push_back(first_sample_ + order_[static_cast<size_t>(place_)]);
    place_ += stride_;
  }
  consumed_ += batch_size_;
  return true;
}

}  // namespace meg::samples
