#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "libmeg/train/internal/optimizer_state.h"

// Makes gradients those of the whole model's step: parts of tensor-parallel copies are added (norms
// of queries and keys, everything replicated under sequence parallelism), then those of tied
// embeddings on the first and last stage, then all of them over the data-parallel ranks. The order
// matters as the last sum leaves a distributed rank with its own share alone.

namespace meg::train {
namespace {

/// Megatron's, of a stage that has buckets of one size.
constexpr int64_t kBucketSize = 40'000'000;
constexpr int64_t kBucketSizeOfRank = 1'000'000;

int64_t bucket_size(const Optimizer::Options& options, int64_t elements, int64_t data_ranks) {
  if (options.ddp_num_buckets) return elements / *options.ddp_num_buckets;
  return options.ddp_bucket_size.value_or(std::max(kBucketSize, kBucketSizeOfRank * data_ranks));
}

}  // namespace

/// One bucket, where nothing overlaps. Else at least one for each chunk; the first stage, whose
/// gradients come last in a step, has its first chunk in buckets of a size. Where ranks share
/// experts, a bucket ends where experts do or begin, as other ranks have copies of them.
/// Mirrors Megatron-LM megatron/core/distributed/distributed_data_parallel.py.
std::vector<size_t> Optimizer::State::ends_of_buckets() const {
  std::vector<size_t> ends =
      overlaps_reduction() ? ends_of_overlapping_buckets() : std::vector{model.parameters().size()};
  if (!ranks.divides_experts_apart()) return ends;
  const auto parameters = model.parameters();
  for (size_t i = 1; i < parameters.size(); ++i) {
    if (parameters[i].is_expert != parameters[i - 1].is_expert) ends.push_back(i);
  }
  std::ranges::sort(ends);
  const auto repeated = std::ranges::unique(ends);
  ends.erase(repeated.begin(), repeated.end());
  return ends;
}

std::vector<size_t> Optimizer::State::ends_of_overlapping_buckets() const {
  const auto is_alone = [this](const nn::GptParameter& parameter) {
    return is_shared_with_a_stage(parameter);
  };
  std::vector<size_t> ends;
  size_t begin = 0;
  for (int64_t chunk = 0; chunk < model.size(); ++chunk) {
    const auto parameters = model[chunk].parameters();
    // Bucketing the other stages and chunks would gain nothing: their gradients are complete while
    // the pipeline still drains, so the sums are off the critical path. A bucket of any size still
    // is reduced as soon as it is complete.
    const int64_t size = ranks.is_first_stage() && chunk == 0
                             ? bucket_size(options, model.parameter_count(), ranks.data()->size())
                             : std::numeric_limits<int64_t>::max();
    std::ranges::transform(bucket_ends(parameters, size, is_alone), std::back_inserter(ends),
                           [begin](size_t end) { return begin + end; });
    begin += parameters.size();
  }
  return ends;
}

/// A parameter that no backward pass came to has a gradient of zeros.
void Optimizer::State::complete_gradients() {
  for (const nn::GptParameter& parameter : model.parameters()) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor);
  }
}

// Whether each tensor-parallel rank has a copy of the parameter and a part of its gradient: norms
// of queries and keys see this rank's heads alone, and under sequence parallelism a replicated
// parameter sees this rank's part of each sequence. Position embeddings are added before
// sequences are split, so each rank has their whole gradient.
bool Optimizer::State::has_part_of_gradient(const nn::GptParameter& parameter) const {
  if (ranks.tensor()->size() == 1 || parameter.partition != model::Partition::kReplicated) {
    return false;
  }
  // An expert is given the tokens of all ranks that share it.
  if (parameter.is_expert) return false;
  const std::string& name = parameter.name;
  if (name.find(".q_layernorm.") != std::string::npos ||
      name.find(".k_layernorm.") != std::string::npos) {
    return true;
  }
  return model.part().tensor_parallel.sequence_parallel &&
         name != "embedding.position_embeddings.weight";
}

/// Whether this stage and another have a copy each.
bool Optimizer::State::is_shared_with_a_stage(const nn::GptParameter& parameter) const {
  return ranks.embedding()->size() > 1 && !model.config().untie_embeddings_and_output_weights &&
         (parameter.name == model::kTiedCopyName ||
          parameter.name == "embedding.word_embeddings.weight");
}

/// Whether its gradients need those of another stage, which come at the end of a step.
bool Optimizer::State::waits_for_a_stage(size_t bucket) const {
  const FlatLayout::Bucket& of = layout.buckets()[bucket];
  return std::ranges::any_of(
      model.parameters().subspan(of.begin, of.end - of.begin),
      [this](const nn::GptParameter& parameter) { return is_shared_with_a_stage(parameter); });
}

/// Mirrors Megatron-LM megatron/core/distributed/finalize_model_grads.py.
Status Optimizer::State::sum_parts_of_copies(size_t parameter) const {
  const nn::GptParameter& of = model.parameters()[parameter];
  const at::Tensor& gradient = of.tensor.grad();
  if (has_part_of_gradient(of)) MEG_RETURN_IF_ERROR(ranks.tensor()->all_reduce(gradient));
  if (is_shared_with_a_stage(of)) MEG_RETURN_IF_ERROR(ranks.embedding()->all_reduce(gradient));
  return {};
}

/// A bucket's gradients become those of all ranks.
Status Optimizer::State::begin_reduction(size_t bucket) {
  const FlatLayout::Bucket& of = layout.buckets()[bucket];
  for (size_t i = of.begin; i < of.end; ++i) MEG_RETURN_IF_ERROR(sum_parts_of_copies(i));
  parallel::ProcessGroup& group = copies_of(of);
  if (!has_copies()) return {};
  const at::Tensor all = layout.of_bucket(of, gradients.flat());
  // Scale before the sum, as in Megatron (gradient_scaling_factor): a mean over ranks whose fp16
  // terms would overflow as a sum stays finite. Experts have been given the tokens of more ranks
  // than have copies of them, and take part in the same mean (expert_gradient_scaling_factor).
  if (reduction_scale != 1) all.mul_(reduction_scale);
  // Of a group of one rank too, so that what was begun is known as such.
  reductions[bucket] = of.division.parts > 1
                           ? group.start_reduce_scatter(all[of.division.own], all)
                           : group.start_all_reduce(all, parallel::Reduction::kSum);
  return {};
}

/// Begins what no backward pass has begun.
// The collectives are begun in the order of the buckets on all ranks and waited for afterwards:
// they overlap each other.
Status Optimizer::State::reduce_gradients() {
  complete_gradients();
  for (size_t bucket = 0; bucket < reductions.size(); ++bucket) {
    if (reductions[bucket] == nullptr) MEG_RETURN_IF_ERROR(begin_reduction(bucket));
  }
  for (parallel::PendingWork& reduction : reductions) {
    if (reduction != nullptr) MEG_RETURN_IF_ERROR(std::exchange(reduction, nullptr)->wait());
  }
  return {};
}

/// Called after each rank updated its share.
Status Optimizer::State::gather_weights() {
  std::vector<parallel::PendingWork> begun;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    const at::Tensor all = layout.of_bucket(bucket, weights.flat());
    // Where nobody else has it there is nothing to gather.
    begun.push_back(bucket.division.parts == 1
                        ? nullptr
                        : copies_of(bucket).start_all_gather(all, all[bucket.division.own]));
  }
  if (gathers.has_value()) {
    gathers->begin(std::move(begun));
    return {};
  }
  for (const parallel::PendingWork& gather : begun) {
    if (gather != nullptr) MEG_RETURN_IF_ERROR(gather->wait());
  }
  return {};
}

Status Optimizer::State::finish_gathers() {
  return gathers.has_value() ? gathers->finish() : Status();
}

}  // namespace meg::train
