#include "libmeg/train/optimizer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/train/internal/flat_buffer.h"
#include "libmeg/train/internal/multi_tensor.h"
#include "libmeg/train/internal/not_finite.h"

namespace meg::train {
namespace {

using libtorch::torch_guard;

// Added to the norm that clipping divides by, as in Megatron.
constexpr double kClipEpsilon = 1e-6;

/// With 1 a moment stays zero and its correction divides by zero.
Status check_beta(std::string_view flag, double beta) {
  if (beta >= 0 && beta < 1) return {};
  return make_error(StatusCode::kInvalidArgument, "{}: expected 0 to less than 1, found {}", flag,
                    beta);
}

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

/// The arrays, as long as the layout, in the shapes of the parameters. masters: may be undefined.
std::vector<Optimizer::ParameterState> states_of(const FlatLayout& layout,
                                                 const at::Tensor& masters,
                                                 const at::Tensor& exp_avg,
                                                 const at::Tensor& exp_avg_sq) {
  const std::vector<at::Tensor> first = layout.views(exp_avg);
  const std::vector<at::Tensor> second = layout.views(exp_avg_sq);
  const std::vector<at::Tensor> master =
      masters.defined() ? layout.views(masters) : std::vector<at::Tensor>(first.size());
  std::vector<Optimizer::ParameterState> states;
  for (size_t i = 0; i < first.size(); ++i) {
    states.push_back({.master = master[i], .exp_avg = first[i], .exp_avg_sq = second[i]});
  }
  return states;
}

kernels::FloatType float_type(at::ScalarType type) {
  if (type == at::kHalf) return kernels::FloatType::kFloat16;
  if (type == at::kBFloat16) return kernels::FloatType::kBFloat16;
  return kernels::FloatType::kFloat32;
}

}  // namespace

struct Optimizer::State {
  State(nn::GptModel& trained, std::unique_ptr<schedule::GradScaler> loss_scaler,
        const Options& given, const parallel::ParallelState& others)
      : model(trained), scaler(std::move(loss_scaler)), options(given), ranks(others) {}

  nn::GptModel& model;
  std::unique_ptr<schedule::GradScaler> scaler;
  Options options;
  parallel::ParallelState ranks;
  FlatLayout layout;
  using Segments = std::vector<FlatLayout::Segment>;
  Segments segments;  ///< Of the parameters' elements those that this rank updates.
  Segments counted;   ///< Among them what the norm is taken of.
  /// Sums over micro-batches; without gradients_in_place, defined from the first of them on.
  FlatBuffer gradients;
  /// The model's parameters as one array, which the ranks of a distributed optimizer gather.
  FlatBuffer weights;
  /// This rank's part of the layout, fp32. Masters only where the parameters are 16-bit.
  at::Tensor masters, exp_avg, exp_avg_sq;
  /// Autograd adds straight into `gradients`; else accumulate_gradients does.
  bool gradients_in_place = true;
  MultiTensor kernels;
  std::optional<MultiTensor> counted_kernels;  ///< Where not all that is updated is counted.
  std::optional<MultiTensor> parameters_for_norm;
  int64_t updates = 0;

  at::ScalarType params_dtype() const { return model.options().params_dtype; }

  bool is_sixteen_bit() const { return params_dtype() != at::kFloat; }

  bool is_distributed() const { return weights.defined(); }

  at::TensorOptions tensor_options(at::ScalarType type) const {
    return at::dtype(type).device(model.options().device);
  }

  bool widens_gradients() const;
  bool has_all_gradients() const;
  bool is_counted(const FlatLayout::Segment& segment) const;
  std::vector<kernels::GradientTensor> gradient_tensors(const Segments& of) const;
  kernels::GradientStatistics statistics(float scale);
  Status over_ranks(kernels::GradientStatistics& statistics) const;
  Status refuse_not_finite(bool found_here);
  void allocate();
  void gather_weights_in_one_array();
  std::vector<kernels::AdamTensor> adam_tensors() const;
  MultiTensor normed_parameters() const;
  Status gather_weights() const;
  /// copy(master, weight) for this rank's share of each parameter.
  template <class Copy>
  void copy_masters(Copy copy) const;
  kernels::AdamStep adam_step(const Rates& rates, float inverse_scale, float clip) const;
};

bool Optimizer::State::widens_gradients() const {
  return options.accumulate_allreduce_grads_in_fp32 ||
         (params_dtype() == at::kBFloat16 && !options.grad_reduce_in_bf16);
}

void Optimizer::State::allocate() {
  const auto parameters = model.parameters();
  const bool shares = options.use_distributed_optimizer && ranks.data()->size() > 1;
  layout = FlatLayout(parameters, shares ? ranks.data()->size() : 1);
  segments = layout.segments(shares ? ranks.data()->rank() : 0);
  if (shares) gather_weights_in_one_array();
  gradients_in_place = !is_sixteen_bit() || !widens_gradients();
  if (gradients_in_place) {
    gradients = FlatBuffer(layout, tensor_options(params_dtype()));
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].tensor.mutable_grad() = gradients.views()[i];
    }
  }
  const auto zeros = [this] {
    return at::zeros({layout.part_elements()}, tensor_options(at::kFloat));
  };
  if (is_sixteen_bit()) masters = zeros();
  exp_avg = zeros();
  exp_avg_sq = zeros();
  kernels = MultiTensor(adam_tensors(), model.options().device);
  std::ranges::copy_if(segments, std::back_inserter(counted),
                       [this](const auto& segment) { return is_counted(segment); });
  if (counted.size() < segments.size()) {
    counted_kernels.emplace(gradient_tensors(counted), model.options().device);
  }
}

void Optimizer::State::gather_weights_in_one_array() {
  weights = FlatBuffer(layout, tensor_options(params_dtype()));
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor parameter = parameters[i].tensor;
    weights.views()[i].copy_(parameter.detach());
    parameter.set_data(weights.views()[i]);
  }
}

bool Optimizer::State::has_all_gradients() const {
  return std::ranges::all_of(model.parameters(), [](const nn::GptParameter& parameter) {
    return parameter.tensor.grad().defined();
  });
}

/// Of what several ranks hold alike, one of them counts.
bool Optimizer::State::is_counted(const FlatLayout::Segment& segment) const {
  const nn::GptParameter& parameter = model.parameters()[segment.parameter];
  const bool is_copy =
      parameter.partition == model::Partition::kReplicated && ranks.tensor()->rank() != 0;
  return !is_copy && parameter.name != model::kTiedCopyName;
}

/// Where the step's gradients are: autograd's own, or those that were gathered.
std::vector<kernels::GradientTensor> Optimizer::State::gradient_tensors(const Segments& of) const {
  const auto parameters = model.parameters();
  std::vector<kernels::GradientTensor> tensors;
  for (const FlatLayout::Segment& segment : of) {
    const at::Tensor& own = parameters[segment.parameter].tensor.grad();
    const at::Tensor& gradient =
        own.defined() || !gradients.defined() ? own : gradients.views()[segment.parameter];
    kernels::GradientTensor& tensor = tensors.emplace_back();
    tensor.count = segment.count;
    if (!gradient.defined()) continue;
    tensor.gradient = elements(gradient, segment.first);
    tensor.type = float_type(gradient.scalar_type());
  }
  return tensors;
}

kernels::GradientStatistics Optimizer::State::statistics(float scale) {
  kernels.set_gradients(gradient_tensors(segments));
  if (!counted_kernels.has_value()) return kernels.statistics(scale);
  counted_kernels->set_gradients(gradient_tensors(counted));
  return counted_kernels->statistics(scale);
}

/// Sums what the ranks found in their parts of the model, and of a distributed optimizer's shares.
Status Optimizer::State::over_ranks(kernels::GradientStatistics& statistics) const {
  if (ranks.model()->size() == 1 && !is_distributed()) return {};
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

/// found_here: in this rank's part, not in others' alone.
Status Optimizer::State::refuse_not_finite(bool found_here) {
  Status status;
  if (found_here) {
    const MultiTensor::NotFinite found =
        (counted_kernels.has_value() ? *counted_kernels : kernels).find_not_finite();
    const std::string& name = model.parameters()[counted[found.tensor].parameter].name;
    status = not_finite_error("gradient of " + name, found.has_nan);
  }
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

/// After each rank updated its share.
Status Optimizer::State::gather_weights() const {
  parallel::ProcessGroup& group = *ranks.data();
  const at::Tensor& all = weights.flat();
  return group.all_gather(all, all.view({group.size(), -1})[group.rank()]);
}

template <class Copy>
void Optimizer::State::copy_masters(Copy copy) const {
  if (!masters.defined()) return;
  for (const FlatLayout::Segment& segment : segments) {
    const at::Tensor weight = model.parameters()[segment.parameter].tensor.detach().view(-1);
    copy(masters.narrow(0, segment.place, segment.count),
         weight.narrow(0, segment.first, segment.count));
  }
}

kernels::AdamStep Optimizer::State::adam_step(const Rates& rates, float inverse_scale,
                                              float clip) const {
  kernels::AdamStep step;
  step.beta1 = static_cast<float>(options.betas[0]);
  step.beta2 = static_cast<float>(options.betas[1]);
  step.eps = static_cast<float>(options.eps);
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

Optimizer::Optimizer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Optimizer::~Optimizer() = default;

Result<std::unique_ptr<Optimizer>> Optimizer::create(nn::GptModel& model,
                                                     std::unique_ptr<schedule::GradScaler> scaler,
                                                     const Options& options,
                                                     const parallel::ParallelState& ranks) {
  MEG_RETURN_IF_ERROR(check_beta("--adam-beta1", options.betas[0]));
  MEG_RETURN_IF_ERROR(check_beta("--adam-beta2", options.betas[1]));
  auto state = std::make_unique<State>(model, std::move(scaler), options, ranks);
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    state->allocate();
    return Status();
  }));
  std::unique_ptr<Optimizer> optimizer(new Optimizer(std::move(state)));
  MEG_RETURN_IF_ERROR(optimizer->copy_model_to_masters());
  return optimizer;
}

bool Optimizer::checks_for_nan() const {
  const bool is_dynamic = state_->scaler != nullptr && state_->scaler->state_dict().has_value();
  return state_->options.check_for_nan_in_loss_and_grad && !is_dynamic;
}

double Optimizer::loss_scale() const {
  return state_->scaler == nullptr ? 1.0 : state_->scaler->scale();
}

Status Optimizer::zero_grad() {
  return libtorch::torch_guard([this] {
    if (state_->gradients.defined()) state_->gradients.flat().zero_();
    if (state_->gradients_in_place) return Status();
    for (const nn::GptParameter& parameter : state_->model.parameters()) {
      parameter.tensor.mutable_grad() = at::Tensor();
    }
    return Status();
  });
}

Status Optimizer::accumulate_gradients(bool only) {
  if (state_->gradients_in_place) return {};
  if (only && state_->ranks.mesh().world_size() == 1 && state_->has_all_gradients()) return {};
  return libtorch::torch_guard([this] {
    const auto parameters = state_->model.parameters();
    if (!state_->gradients.defined())
      state_->gradients = FlatBuffer(state_->layout, state_->tensor_options(at::kFloat));
    for (size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor& gradient = parameters[i].tensor.mutable_grad();
      if (!gradient.defined()) continue;
      state_->gradients.views()[i].add_(gradient);
      gradient = at::Tensor();
    }
    return Status();
  });
}

Status Optimizer::reduce_gradients(double scale) {
  return libtorch::torch_guard([&]() -> Status {
    parallel::ProcessGroup& group = *state_->ranks.data();
    if (group.size() == 1) return {};
    const at::Tensor& all = state_->gradients.flat();
    if (scale != 1) all.mul_(scale);
    if (!state_->is_distributed()) return group.all_reduce(all);
    return group.reduce_scatter(all.view({group.size(), -1})[group.rank()], all);
  });
}

Status Optimizer::scale_gradients(double factor) {
  return libtorch::torch_guard([&] {
    state_->gradients.flat().mul_(factor);
    return Status();
  });
}

Result<double> Optimizer::params_norm() {
  double norm = 0;
  const Status done = libtorch::torch_guard([&]() -> Status {
    std::optional<MultiTensor>& parameters = state_->parameters_for_norm;
    if (!parameters.has_value()) parameters.emplace(state_->normed_parameters());
    kernels::GradientStatistics found = parameters->statistics(/*scale=*/1);
    MEG_RETURN_IF_ERROR(state_->over_ranks(found));
    norm = std::sqrt(found.sum_of_squares);
    return Status();
  });
  MEG_RETURN_IF_ERROR(done);
  return norm;
}

Result<Optimizer::Outcome> Optimizer::step(const Rates& rates) {
  Outcome outcome;
  const Status done = libtorch::torch_guard([&]() -> Status {
    State& state = *state_;
    const float inverse_scale = state.scaler == nullptr ? 1.0F : state.scaler->inv_scale();
    kernels::GradientStatistics found = state.statistics(inverse_scale);
    const bool found_here = found.found_inf();
    MEG_RETURN_IF_ERROR(state.over_ranks(found));
    if (checks_for_nan() && found.found_inf()) return state.refuse_not_finite(found_here);
    if (state.scaler != nullptr) {
      outcome.skipped = found.found_inf();
      state.scaler->update(found.found_inf());
      if (outcome.skipped) return {};
    }
    const auto norm = static_cast<float>(std::sqrt(found.sum_of_squares));
    outcome.grad_norm = double{norm};
    float clip = 1;
    if (state.options.clip_grad > 0) {
      const double coefficient = state.options.clip_grad / (double{norm} + kClipEpsilon);
      if (coefficient < 1) clip = static_cast<float>(coefficient);
    }
    if (state.options.log_num_zeros_in_grad) outcome.num_zeros = found.num_zeros;
    state.kernels.adam(state.adam_step(rates, inverse_scale, clip));
    ++state.updates;
    if (state.is_distributed()) return state.gather_weights();
    return {};
  });
  MEG_RETURN_IF_ERROR(done);
  return outcome;
}

Result<std::vector<Optimizer::ParameterState>> Optimizer::states() {
  std::vector<ParameterState> states;
  const Status done = libtorch::torch_guard([&]() -> Status {
    const auto gathered = [this](const at::Tensor& part, at::Tensor& whole) -> Status {
      if (!state_->is_distributed() || !part.defined()) {
        whole = part;
        return {};
      }
      whole = at::empty({state_->layout.elements()}, part.options());
      return state_->ranks.data()->all_gather(whole, part);
    };
    at::Tensor masters, exp_avg, exp_avg_sq;
    MEG_RETURN_IF_ERROR(gathered(state_->masters, masters));
    MEG_RETURN_IF_ERROR(gathered(state_->exp_avg, exp_avg));
    MEG_RETURN_IF_ERROR(gathered(state_->exp_avg_sq, exp_avg_sq));
    states = states_of(state_->layout, masters, exp_avg, exp_avg_sq);
    return {};
  });
  MEG_RETURN_IF_ERROR(done);
  return states;
}

Status Optimizer::take_states(const std::vector<ParameterState>& states) {
  if (!state_->is_distributed()) return {};
  return libtorch::torch_guard([&] {
    for (const FlatLayout::Segment& segment : state_->segments) {
      const auto take = [&segment](const at::Tensor& part, const at::Tensor& whole) {
        if (!part.defined()) return;
        part.narrow(0, segment.place, segment.count)
            .copy_(whole.view(-1).narrow(0, segment.first, segment.count));
      };
      const ParameterState& whole = states[segment.parameter];
      take(state_->masters, whole.master);
      take(state_->exp_avg, whole.exp_avg);
      take(state_->exp_avg_sq, whole.exp_avg_sq);
    }
    return Status();
  });
}

Status Optimizer::copy_model_to_masters() {
  return libtorch::torch_guard([this] {
    state_->copy_masters(
        [](const at::Tensor& master, const at::Tensor& weight) { master.copy_(weight); });
    return Status();
  });
}

Status Optimizer::copy_masters_to_model() {
  return libtorch::torch_guard([this]() -> Status {
    state_->copy_masters(
        [](const at::Tensor& master, const at::Tensor& weight) { weight.copy_(master); });
    return state_->is_distributed() ? state_->gather_weights() : Status();
  });
}

int64_t Optimizer::updates() const { return state_->updates; }

void Optimizer::set_updates(int64_t updates) { state_->updates = updates; }

schedule::GradScaler* Optimizer::scaler() { return state_->scaler.get(); }

const Optimizer::Options& Optimizer::options() const { return state_->options; }

}  // namespace meg::train
