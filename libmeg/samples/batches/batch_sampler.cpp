#include "libmeg/samples/batches/batch_sampler.h"

#include <limits>
#include <numeric>

#include "libmeg/samples/batches/internal/cyclic_sampler.h"

namespace meg::samples {
namespace {

Status check_at_least(std::string_view what, int64_t value, int64_t least) {
  if (value >= least) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "batch sampler: {}: expected {} or more, found {}", what, least, value);
}

Status check_options(const BatchSampler::Options& options) {
  MEG_RETURN_IF_ERROR(check_at_least("samples of the dataset", options.total_samples, 1));
  MEG_RETURN_IF_ERROR(check_at_least("consumed samples", options.consumed_samples, 0));
  MEG_RETURN_IF_ERROR(check_at_least("micro batch size", options.micro_batch_size, 1));
  MEG_RETURN_IF_ERROR(check_at_least("data-parallel size", options.data_parallel_size, 1));
  if (options.data_parallel_rank < 0 || options.data_parallel_rank >= options.data_parallel_size) {
    return make_error(StatusCode::kInvalidArgument,
                      "batch sampler: data-parallel rank: expected 0 to {}, found {}",
                      options.data_parallel_size - 1, options.data_parallel_rank);
  }
  int64_t product = 0;
  if (__builtin_mul_overflow(options.micro_batch_size, options.data_parallel_size, &product)) {
    return make_error(StatusCode::kInvalidArgument,
                      "batch sampler: micro batch size {} times data-parallel size {}: expected at "
                      "most {}",
                      options.micro_batch_size, options.data_parallel_size,
                      std::numeric_limits<int64_t>::max());
  }
  return Status();
}

/// Batches one after another, each cut into the ranks' micro-batches.
/// Mirrors MegatronPretrainingSampler.
class SingleSampler : public BatchSampler {
 public:
  explicit SingleSampler(const Options& options)
      : end_(options.total_samples),
        batch_size_(options.micro_batch_size * options.data_parallel_size),
        micro_batch_size_(options.micro_batch_size),
        rank_offset_(options.data_parallel_rank * options.micro_batch_size),
        consumed_(options.consumed_samples) {}

  bool next(std::vector<int64_t>& samples) override {
    samples.clear();
    // The rest is less than a batch of all ranks: no rank may have a micro-batch that another
    // lacks.
    if (end_ - consumed_ < batch_size_) return false;
    samples.resize(static_cast<size_t>(micro_batch_size_));
    std::iota(samples.begin(), samples.end(), consumed_ + rank_offset_);
    consumed_ += batch_size_;
    return true;
  }

 private:
  const int64_t end_;
  const int64_t batch_size_;  ///< Samples, of all ranks.
  const int64_t micro_batch_size_;
  const int64_t rank_offset_;
  int64_t consumed_;
};

/// Every sample once, one at a time, dealt to the ranks in turn; the last ranks may get one less.
/// Mirrors MegatronFullValidationSampler.
class FullValidationSampler : public BatchSampler {
 public:
  explicit FullValidationSampler(const Options& options)
      : end_(options.total_samples),
        ranks_(options.data_parallel_size),
        sample_(options.data_parallel_rank) {}

  bool next(std::vector<int64_t>& samples) override {
    samples.clear();
    if (sample_ >= end_) return false;
    samples.push_back(sample_);
    // Written so that the sum cannot overflow.
    sample_ = ranks_ > end_ - sample_ ? end_ : sample_ + ranks_;
    return true;
  }

 private:
  const int64_t end_;
  const int64_t ranks_;
  int64_t sample_;
};

}  // namespace

Result<std::unique_ptr<BatchSampler>> BatchSampler::create(const Options& options) {
  MEG_RETURN_IF_ERROR(check_options(options));
  using Created = std::unique_ptr<BatchSampler>;
  if (options.type == DataloaderType::kCyclic) return CyclicSampler::create(options);
  if (options.type == DataloaderType::kFullValidation) {
    return Created(std::make_unique<FullValidationSampler>(options));
  }
  if (options.consumed_samples >= options.total_samples) {
    return make_error(StatusCode::kInvalidArgument,
                      "batch sampler: no samples are left: expected fewer consumed samples than "
                      "the {} of the dataset, found {}",
                      options.total_samples, options.consumed_samples);
  }
  return Created(std::make_unique<SingleSampler>(options));
}

}  // namespace meg::samples
