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

/// A model whose parts are on the ranks of a run. The first rank calls the functions, which tell
/// the others what to do; these call follow(). A single rank has the whole model.
class ModelRanks {
 public:
  /// Called by all ranks. part: this rank's part, in evaluation mode, which must outlive this
  /// object.
  /// Errors: kInvalidArgument if the ranks hold several copies of the model.
  static Result<std::shared_ptr<ModelRanks>> create(nn::GptModel& part,
                                                    const parallel::ParallelState& ranks);

  ModelRanks(const ModelRanks&) = delete;
  ModelRanks& operator=(const ModelRanks&) = delete;

  /// On the first rank, ends follow() on the others.
  ~ModelRanks();

  /// Executes the first rank's calls until it ends. Errors: those of this rank's part; kIoError if
  /// a rank is gone.
  Status follow();

  const nn::GptModel& part() const { return part_; }

  /// The reason why no function can be called any more: ranks that failed in the middle of
  /// something do not know
  /// of each other where they are.
  const Status& lost() const { return lost_; }

  /// The number of a new cache on all ranks.
  Result<int64_t> add_cache(int64_t slots, int64_t capacity);
  void drop_cache(int64_t cache);

  /// The first rank's cache. Tokens dropped from it are dropped on the other ranks by the next
  /// extend().
  nn::KvCache& cache(int64_t cache) { return caches_.at(cache); }

  const nn::KvCache& cache(int64_t cache) const { return caches_.at(cache); }

  /// KvCache::rearrange() of all parts.
  Status rearrange(int64_t cache, std::span<const int64_t> sources);

  /// KvCache::copy_prefix() of all parts.
  Status copy_prefix(int64_t cache, int64_t source, int64_t slot, int64_t length);

  /// The hidden states of new tokens of sequences (see nn::CachedInput) after the last layer, [T,
  /// h].
  Result<at::Tensor> extend(int64_t cache, std::span<const nn::CachedTokens> sequences,
                            std::span<const int32_t> tokens);

  /// GptModel::logits_of() of hidden states [n, h].
  Result<at::Tensor> logits(const at::Tensor& hidden_states, int64_t vocab_size);

  /// Returns for each row the token below vocab_size with the largest logit, the first one if
  /// several are equal, or -1 if they are not finite: [n] int64.
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
