#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::generation {

/// A model whose parts lie on the ranks of a run. The first rank calls the functions, which say to
/// the others what they are to do; these follow(). One rank alone has the whole model.
class ModelRanks {
 public:
  /// Called by all ranks. part: this rank's, in evaluation mode; it outlives this.
  /// Errors: kInvalidArgument where the ranks hold several copies of the model.
  static Result<std::shared_ptr<ModelRanks>> create(nn::GptModel& part,
                                                    const parallel::ParallelState& ranks);

  ModelRanks(const ModelRanks&) = delete;
  ModelRanks& operator=(const ModelRanks&) = delete;

  /// Ends what the others do, on the first rank.
  ~ModelRanks();

  /// Does what the first rank says, until it ends. Errors: what this rank's part ran into; kIoError
  /// where a rank is gone.
  Status follow();

  const nn::GptModel& part() const { return part_; }

  /// Why no function can work any more: ranks that failed in the middle of something do not know
  /// of each other where they are.
  const Status& lost() const { return lost_; }

  /// The number of a new cache on all ranks.
  Result<int64_t> add_cache(int64_t slots, int64_t capacity);
  void drop_cache(int64_t cache);

  /// The first rank's part. What is cut there, others cut at the next extend().
  nn::KvCache& cache(int64_t cache) { return caches_.at(cache); }

  const nn::KvCache& cache(int64_t cache) const { return caches_.at(cache); }

  /// KvCache::rearrange() of all parts.
  Status rearrange(int64_t cache, std::span<const int64_t> sources);

  /// New tokens of sequences (see nn::CachedInput): their hidden states behind the last layer, [T,
  /// h].
  Result<at::Tensor> extend(int64_t cache, std::span<const nn::CachedTokens> sequences,
                            std::span<const int32_t> tokens);

  /// What the output layer makes of hidden states [n, h]: [n, v] fp32 over the padded vocabulary.
  Result<at::Tensor> logits(const at::Tensor& hidden_states);

  /// For each row the token below vocab_size with the largest of these logits, the first where
  /// several are; -1 where some are NaN: [n] int64.
  Result<at::Tensor> most_likely(const at::Tensor& hidden_states, int64_t vocab_size);

 private:
  struct Request;

  ModelRanks(nn::GptModel& part, parallel::ParallelState ranks,
             std::shared_ptr<parallel::ProcessGroup> requests)
      : part_(part), ranks_(std::move(ranks)), requests_(std::move(requests)) {}

  bool is_first_rank() const { return requests_->rank() == 0; }

  Result<at::Tensor> ask(Request request);
  Status exchange(Request& request);
  Result<at::Tensor> perform(const Request& request);
  Result<at::Tensor> perform_extend(const Request& request);
  Result<at::Tensor> perform_output(const Request& request);
  Result<at::Tensor> to_first_stage(const at::Tensor& result, at::IntArrayRef shape,
                                    at::ScalarType type);

  nn::GptModel& part_;
  parallel::ParallelState ranks_;
  std::shared_ptr<parallel::ProcessGroup> requests_;  ///< All ranks, which wait forever.
  std::map<int64_t, nn::KvCache> caches_;
  int64_t next_cache_ = 0;
  Status lost_;
};

}  // namespace meg::generation
