#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libmeg/train/internal/flat_buffer.h"
#include "libmeg/train/internal/gradient_buckets.h"
#include "libmeg/train/internal/multi_tensor.h"
#include "libmeg/train/internal/weight_gathers.h"
#include "libmeg/train/optimizer.h"

namespace meg::train {

/// The state of an optimizer, and the operations on it that run inside a torch_guard.
struct Optimizer::State {
  State(const ModelChunks& trained, std::unique_ptr<schedule::GradScaler> loss_scaler,
        const Options& given, const parallel::ParallelState& others)
      : model(trained), scaler(std::move(loss_scaler)), options(given), ranks(others) {}

  ModelChunks model;
  std::unique_ptr<schedule::GradScaler> scaler;
  Options options;
  parallel::ParallelState ranks;
  FlatLayout layout;
  using Segments = std::vector<FlatLayout::Segment>;
  Segments segments;  ///< The elements of parameters that this rank updates.
  Segments counted;   ///< Those of them that count for the norm,
  Segments copies;    ///< and those that another rank counts.
  /// Sums over micro-batches, which are the parameters' gradients. If these may stay with autograd,
  /// it is defined once a step accumulates them.
  FlatBuffer gradients;
  /// Set if reduction overlaps with backward passes.
  std::optional<GradientBuckets> buckets;
  double reduction_scale = 1;                     ///< Factor of the step's gradients.
  std::vector<parallel::PendingWork> reductions;  ///< By bucket; null: not started.
  /// The model's parameters as one array, which the ranks of a distributed optimizer gather.
  FlatBuffer weights;
  std::optional<WeightGathers> gathers;  ///< Set if they overlap with forward passes.
  /// This rank's part of the layout, fp32. Masters are defined only if the parameters are 16-bit.
  at::Tensor masters, exp_avg, exp_avg_sq;
  /// Whether the gradients of a single micro-batch stay with autograd: true for bf16 gradients that
  /// sums would widen.
  bool may_stay = false;
  MultiTensor kernels;
  std::optional<MultiTensor> counted_kernels,
      copy_kernels;               ///< copy_kernels: set if there are copies.
  bool copies_are_finite = true;  ///< As found by statistics().
  std::optional<MultiTensor> parameters_for_norm;
  int64_t updates = 0;

  at::ScalarType params_dtype() const { return model.options().params_dtype; }

  bool is_sixteen_bit() const { return params_dtype() != at::kFloat; }

  bool is_distributed() const { return weights.defined(); }

  /// The ranks that have copies of a parameter.
  parallel::ProcessGroup& copies_of(const nn::GptParameter& parameter) const {
    return parameter.is_expert ? *ranks.expert_data() : *ranks.data();
  }

  /// The same for a bucket, whose parameters are all experts' or none where experts have others.
  parallel::ProcessGroup& copies_of(const FlatLayout::Bucket& bucket) const {
    return copies_of(model.parameters()[bucket.begin]);
  }

  /// Whether some of this rank's parameters are copies of those of other ranks.
  bool has_copies() const { return ranks.data()->size() > 1 || ranks.expert_data()->size() > 1; }

  at::TensorOptions tensor_options(at::ScalarType type) const {
    return at::dtype(type).device(model.options().device);
  }

  bool overlaps_reduction() const { return options.overlap_grad_reduce && has_copies(); }

  bool widens_gradients() const;
  void zero_gradients(bool stay);
  void complete_gradients();
  bool is_counted(const FlatLayout::Segment& segment) const;
  std::vector<kernels::GradientTensor> gradient_tensors(const Segments& of) const;
  kernels::GradientStatistics statistics(float scale);
  Status over_ranks(kernels::GradientStatistics& statistics) const;
  Status over_all_ranks(kernels::GradientStatistics& statistics) const;
  Status refuse_not_finite(bool found_here);
  void allocate();
  void gather_weights_in_one_array();
  std::vector<kernels::AdamTensor> adam_tensors() const;
  MultiTensor normed_parameters() const;
  std::vector<size_t> ends_of_buckets() const;
  std::vector<size_t> ends_of_overlapping_buckets() const;
  bool has_part_of_gradient(const nn::GptParameter& parameter) const;
  bool is_shared_with_a_stage(const nn::GptParameter& parameter) const;
  bool waits_for_a_stage(size_t bucket) const;
  Status sum_parts_of_copies(size_t parameter) const;
  Status begin_reduction(size_t bucket);
  Status reduce_gradients();
  Status finish_gathers();
  Status gather_weights();
  /// copy(master, weight) for this rank's share of each parameter.
  template <class Copy>
  void copy_masters(Copy copy) const;
  kernels::AdamStep adam_step(const Rates& rates, float inverse_scale, float clip) const;
};

template <class Copy>
void Optimizer::State::copy_masters(Copy copy) const {
  if (!masters.defined()) return;
  for (const FlatLayout::Segment& segment : segments) {
    const at::Tensor weight = model.parameters()[segment.parameter].tensor.detach().view(-1);
    copy(masters.narrow(0, segment.place, segment.count),
         weight.narrow(0, segment.first, segment.count));
  }
}

}  // namespace meg::train
