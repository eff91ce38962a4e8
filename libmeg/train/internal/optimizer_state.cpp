#include "libmeg/train/internal/optimizer_state.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/train/internal/not_finite.h"

// The tensors of the optimizer and the lists of them that the kernels take.
//
// Everything is addressed by segments: the elements of a parameter that this rank updates. Without
// a distributed optimizer these are whole parameters, so that both cases are one code.

namespace meg::train {
namespace {

// The order is that of AdamStep::groups, see adam_step() below.
enum Group : int { kDecay = 0, kNoDecay = 1, kDecoupled = 2 };

/// What --decoupled-lr has its rate for is what is cut by the vocabulary.
Group group_of(const nn::GptParameter& parameter) {
  if (parameter.partition == model::Partition::kVocabulary) return kDecoupled;
  return parameter.weight_decay ? kDecay : kNoDecay;
}

/// The first elements of a dense tensor are left out.
void* elements(const at::Tensor& tensor, int64_t first) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + first * tensor.element_size();
}

kernels::FloatType float_type(at::ScalarType type) {
  if (type == at::kHalf) return kernels::FloatType::kFloat16;
  if (type == at::kBFloat16) return kernels::FloatType::kBFloat16;
  return kernels::FloatType::kFloat32;
}

}  // namespace

bool Optimizer::State::widens_gradients() const {
  // Sums over micro-batches in fp32: Megatron makes accumulate_allreduce_grads_in_fp32 true for
  // bf16 itself (validate_args), because bf16 has too few bits to add small gradients to a large
  // sum.
  return options.accumulate_allreduce_grads_in_fp32 ||
         (params_dtype() == at::kBFloat16 && !options.grad_reduce_in_bf16);
}

void Optimizer::State::allocate() {
  const auto parameters = model.parameters();
  const bool shares = options.use_distributed_optimizer && has_copies();
  layout = FlatLayout(parameters, ends_of_buckets(), [&](const nn::GptParameter& parameter) {
    const parallel::ProcessGroup& group = copies_of(parameter);
    return shares ? FlatLayout::Division{.parts = group.size(), .own = group.rank()}
                  : FlatLayout::Division{};
  });
  segments = layout.segments();
  if (shares) gather_weights_in_one_array();
  if (shares && options.overlap_param_gather) gathers.emplace(model, layout);
  if (overlaps_reduction()) {
    buckets.emplace(parameters, layout, [this](size_t bucket) {
      if (!waits_for_a_stage(bucket)) libtorch::throw_if_error(begin_reduction(bucket));
    });
  }
  // Where sums are fp32 but backward passes bring bf16, the gradient of a single micro-batch may
  // stay as it is: its fp32 copy would have the same value, and what autograd adds itself, the two
  // gradients of a tied embedding, is rounded once more. In fp16 that sum may overflow, which fp32
  // does not: with fp16 steps would be skipped that more micro-batches or ranks do not skip.
  may_stay = params_dtype() == at::kBFloat16 && widens_gradients();
  if (!may_stay) zero_gradients(/*stay=*/false);
  const auto zeros = [this] {
    return at::zeros({layout.part_elements()}, tensor_options(at::kFloat));
  };
  // Filled by copy_model_to_masters(), whether a checkpoint follows or not.
  if (is_sixteen_bit()) masters = zeros();
  exp_avg = zeros();
  exp_avg_sq = zeros();
  // Make them after the buffers exist: the lists hold addresses.
  kernels = MultiTensor(adam_tensors(), model.options().device);
  std::ranges::partition_copy(segments, std::back_inserter(counted), std::back_inserter(copies),
                              [this](const auto& segment) { return is_counted(segment); });
  if (!copies.empty()) {
    counted_kernels.emplace(gradient_tensors(counted), model.options().device);
    copy_kernels.emplace(gradient_tensors(copies), model.options().device);
  }
}

// The parameters then are views of one array, whose buckets can be gathered over the ranks without
// copying. The model's tensors stay the same objects; only their storage changes.
void Optimizer::State::gather_weights_in_one_array() {
  weights = FlatBuffer(layout, tensor_options(params_dtype()));
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor parameter = parameters[i].tensor;
    weights.views()[i].copy_(parameter.detach());
    parameter.set_data(weights.views()[i]);
  }
}

/// stay: autograd's gradients are left to it; else they are the views of one array, zero now, to
/// which backward passes add.
void Optimizer::State::zero_gradients(bool stay) {
  if (stay) {
    for (const nn::GptParameter& parameter : model.parameters()) {
      // Autograd then sets the gradient to the tensor that it computed instead of adding to one.
      parameter.tensor.mutable_grad() = at::Tensor();
    }
    return;
  }
  if (gradients.defined()) {
    gradients.flat().zero_();
  } else {
    gradients =
        FlatBuffer(layout, tensor_options(widens_gradients() ? at::kFloat : params_dtype()));
  }
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].tensor.mutable_grad() = gradients.views()[i];
  }
}

// The norm counts each element of the model once. Replicated parameters (norms, biases of
// row-parallel layers) are counted by the first tensor-parallel rank, a tied output layer by the
// stage that has the embedding: Megatron's param_is_not_tensor_parallel_duplicate and
// param_is_not_shared. Where ranks share experts, sums are taken over all ranks, and of copies the
// first one counts.
bool Optimizer::State::is_counted(const FlatLayout::Segment& segment) const {
  const nn::GptParameter& parameter = model.parameters()[segment.parameter];
  if (ranks.divides_experts_apart()) {
    if (!is_distributed() && copies_of(parameter).rank() != 0) return false;
    if (parameter.is_expert) return true;
  }
  const bool is_copy =
      parameter.partition == model::Partition::kReplicated && ranks.tensor()->rank() != 0;
  return !is_copy && parameter.name != model::kTiedCopyName;
}

/// Where the step's gradients are; before the first step they are nowhere.
std::vector<kernels::GradientTensor> Optimizer::State::gradient_tensors(const Segments& of) const {
  const auto parameters = model.parameters();
  std::vector<kernels::GradientTensor> tensors;
  for (const FlatLayout::Segment& segment : of) {
    const at::Tensor& gradient = parameters[segment.parameter].tensor.grad();
    kernels::GradientTensor& tensor = tensors.emplace_back();
    tensor.count = segment.count;
    if (!gradient.defined()) continue;
    tensor.gradient = elements(gradient, segment.first);
    tensor.type = float_type(gradient.scalar_type());
  }
  return tensors;
}

kernels::GradientStatistics Optimizer::State::statistics(float scale) {
  // Autograd may have put the step's gradients elsewhere.
  kernels.set_gradients(gradient_tensors(segments));
  if (!counted_kernels.has_value()) return kernels.statistics(scale);
  counted_kernels->set_gradients(gradient_tensors(counted));
  copy_kernels->set_gradients(gradient_tensors(copies));
  // Both are looked at, because inf in a copy must skip the step as well, but only the first are
  // summed.
  kernels::GradientStatistics found = counted_kernels->statistics(scale);
  const kernels::GradientStatistics of_copies = copy_kernels->statistics(scale);
  copies_are_finite = !of_copies.found_inf();
  // NaN or inf replaces the sum of the others, which does not know of it: over_ranks() carries it
  // to all ranks.
  if (!copies_are_finite) found.sum_of_squares = of_copies.sum_of_squares;
  return found;
}

/// Sums what the ranks found in their parts of the model, and of a distributed optimizer's shares.
Status Optimizer::State::over_ranks(kernels::GradientStatistics& statistics) const {
  if (ranks.divides_experts_apart()) return over_all_ranks(statistics);
  if (ranks.model()->size() == 1 && !is_distributed()) return {};
  // fp64, as the sum of squares of fp32 may exceed fp32's range; the number of zeros is exact up to
  // 2^53.
  const at::Tensor sums = at::tensor(
      {statistics.sum_of_squares, static_cast<double>(statistics.num_zeros)}, at::kDouble);
  const at::Tensor there = sums.to(model.options().device);
  MEG_RETURN_IF_ERROR(ranks.model()->all_reduce(there));
  if (is_distributed()) MEG_RETURN_IF_ERROR(ranks.data()->all_reduce(there));
  const at::Tensor total = there.cpu();
  statistics.sum_of_squares = total[0].item<double>();
  statistics.num_zeros = total[1].item<int64_t>();
  return {};
}

/// Experts and other parameters have copies on different ranks: each rank has left out what another
/// one counts.
Status Optimizer::State::over_all_ranks(kernels::GradientStatistics& statistics) const {
  const at::Tensor sums = at::tensor(
      {statistics.sum_of_squares, static_cast<double>(statistics.num_zeros)}, at::kDouble);
  MEG_RETURN_IF_ERROR(ranks.world().all_reduce(sums));
  statistics.sum_of_squares = sums[0].item<double>();
  statistics.num_zeros = sums[1].item<int64_t>();
  return {};
}

/// found_here: in this rank's part, not in others' alone.
Status Optimizer::State::refuse_not_finite(bool found_here) {
  Status status;
  if (found_here) {
    MultiTensor& of_counted = counted_kernels.has_value() ? *counted_kernels : kernels;
    const MultiTensor::NotFinite found =
        (copies_are_finite ? of_counted : *copy_kernels).find_not_finite();
    const FlatLayout::Segment& segment = (copies_are_finite ? counted : copies)[found.tensor];
    const std::string& name = model.parameters()[segment.parameter].name;
    status = not_finite_error("gradient of " + name, found.has_nan);
  }
  // Agreeing lets ranks without the bad gradient end with the message of the one that has it.
  return ranks.agree(status);
}

std::vector<kernels::AdamTensor> Optimizer::State::adam_tensors() const {
  const auto parameters = model.parameters();
  std::vector<kernels::AdamTensor> tensors;
  for (const FlatLayout::Segment& segment : segments) {
    const nn::GptParameter& parameter = parameters[segment.parameter];
    void* const weight = elements(parameter.tensor, segment.first);
    kernels::AdamTensor& tensor = tensors.emplace_back();
    tensor.master = is_sixteen_bit() ? masters.mutable_data_ptr<float>() + segment.place
                                     : static_cast<float*>(weight);
    tensor.exp_avg = exp_avg.mutable_data_ptr<float>() + segment.place;
    tensor.exp_avg_sq = exp_avg_sq.mutable_data_ptr<float>() + segment.place;
    if (is_sixteen_bit()) tensor.weight = weight;
    tensor.weight_type = float_type(parameter.tensor.scalar_type());
    tensor.group = group_of(parameter);
    tensor.count = segment.count;
  }
  return tensors;
}

/// The parameters in the place of gradients, whose sum of squares the kernels take.
MultiTensor Optimizer::State::normed_parameters() const {
  // An fp32 or fp16 model's parameters are taken as they are: calc_params_l2_norm uses masters for
  // bf16 only.
  const bool takes_masters = params_dtype() == at::kBFloat16;
  std::vector<kernels::GradientTensor> tensors;
  for (const FlatLayout::Segment& segment : counted) {
    const at::Tensor& parameter = model.parameters()[segment.parameter].tensor;
    tensors.push_back(
        {.gradient =
             takes_masters ? elements(masters, segment.place) : elements(parameter, segment.first),
         .type = takes_masters ? kernels::FloatType::kFloat32 : float_type(parameter.scalar_type()),
         .count = segment.count});
  }
  return MultiTensor(tensors, model.options().device);
}

kernels::AdamStep Optimizer::State::adam_step(const Rates& rates, float inverse_scale,
                                              float clip) const {
  kernels::AdamStep step;
  step.beta1 = static_cast<float>(options.betas[0]);
  step.beta2 = static_cast<float>(options.betas[1]);
  step.eps = static_cast<float>(options.eps);
  // The step that is about to be made: torch increments before it corrects the bias.
  step.bias_correction1 = kernels::adam_bias_correction(step.beta1, updates + 1);
  step.bias_correction2 = kernels::adam_bias_correction(step.beta2, updates + 1);
  step.inverse_loss_scale = inverse_scale;
  step.clip_coefficient = clip;
  const auto lr = static_cast<float>(rates.lr);
  const auto weight_decay = static_cast<float>(rates.weight_decay);
  step.groups[kDecay] = {.learning_rate = lr, .weight_decay = weight_decay};
  step.groups[kNoDecay] = {.learning_rate = lr, .weight_decay = 0};
  step.groups[kDecoupled] = {
      .learning_rate = static_cast<float>(rates.decoupled_lr.value_or(rates.lr)),
      .weight_decay = weight_decay};
  return step;
}

}  // namespace meg::train
