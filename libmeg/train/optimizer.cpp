#include "libmeg/train/optimizer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

kernels::FloatType float_type(at::ScalarType type) {
  if (type == at::kHalf) return kernels::FloatType::kFloat16;
  if (type == at::kBFloat16) return kernels::FloatType::kBFloat16;
  return kernels::FloatType::kFloat32;
}

}  // namespace

struct Optimizer::State {
  State(nn::GptModel& trained, std::unique_ptr<schedule::GradScaler> loss_scaler,
        const Options& given)
      : model(trained), scaler(std::move(loss_scaler)), options(given) {}

  nn::GptModel& model;
  std::unique_ptr<schedule::GradScaler> scaler;
  Options options;
  /// Sums over micro-batches; without gradients_in_place, defined from the first of them on.
  FlatBuffer gradients;
  FlatBuffer masters;  ///< Only where the parameters are 16-bit.
  FlatBuffer exp_avg, exp_avg_sq;
  /// Autograd adds straight into `gradients`; else accumulate_gradients does.
  bool gradients_in_place = true;
  std::vector<ParameterState> states;
  MultiTensor kernels;
  std::optional<MultiTensor> parameters_for_norm;
  int64_t updates = 0;

  bool is_sixteen_bit() const { return model.options().params_dtype != at::kFloat; }

  bool has_all_gradients() const;
  std::vector<kernels::GradientTensor> gradient_tensors() const;
  Status refuse_not_finite();
  void allocate();
  std::vector<kernels::AdamTensor> adam_tensors();
  MultiTensor normed_parameters() const;
  kernels::AdamStep adam_step(const Rates& rates, float inverse_scale, float clip) const;
};

void Optimizer::State::allocate() {
  const auto parameters = model.parameters();
  const at::ScalarType type = model.options().params_dtype;
  const bool widen = options.accumulate_allreduce_grads_in_fp32 ||
                     (type == at::kBFloat16 && !options.grad_reduce_in_bf16);
  gradients_in_place = !is_sixteen_bit() || !widen;
  if (gradients_in_place) gradients = FlatBuffer(parameters, type);
  if (is_sixteen_bit()) masters = FlatBuffer(parameters, at::kFloat);
  exp_avg = FlatBuffer(parameters, at::kFloat);
  exp_avg_sq = FlatBuffer(parameters, at::kFloat);
  for (size_t i = 0; i < parameters.size(); ++i) {
    states.push_back({.master = masters.defined() ? masters.views()[i] : at::Tensor(),
                      .exp_avg = exp_avg.views()[i],
                      .exp_avg_sq = exp_avg_sq.views()[i]});
    if (gradients_in_place) parameters[i].tensor.mutable_grad() = gradients.views()[i];
  }
  kernels = MultiTensor(adam_tensors(), model.options().device);
}

bool Optimizer::State::has_all_gradients() const {
  return std::ranges::all_of(model.parameters(), [](const nn::GptParameter& parameter) {
    return parameter.tensor.grad().defined();
  });
}

/// Where the step's gradients are: autograd's own, or those that were gathered.
std::vector<kernels::GradientTensor> Optimizer::State::gradient_tensors() const {
  const auto parameters = model.parameters();
  std::vector<kernels::GradientTensor> tensors(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& own = parameters[i].tensor.grad();
    const at::Tensor& gradient = own.defined() ? own : gradients.views()[i];
    tensors[i].gradient = gradient.const_data_ptr();
    tensors[i].type = float_type(gradient.scalar_type());
  }
  return tensors;
}

Status Optimizer::State::refuse_not_finite() {
  const MultiTensor::NotFinite found = kernels.find_not_finite();
  return not_finite_error("gradient of " + model.parameters()[found.tensor].name, found.has_nan);
}

std::vector<kernels::AdamTensor> Optimizer::State::adam_tensors() {
  const auto parameters = model.parameters();
  std::vector<kernels::AdamTensor> tensors;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& weight = parameters[i].tensor;
    kernels::AdamTensor tensor;
    const at::Tensor master = is_sixteen_bit() ? states[i].master : weight.detach();
    tensor.master = master.mutable_data_ptr<float>();
    tensor.exp_avg = states[i].exp_avg.mutable_data_ptr<float>();
    tensor.exp_avg_sq = states[i].exp_avg_sq.mutable_data_ptr<float>();
    if (is_sixteen_bit()) tensor.weight = weight.mutable_data_ptr();
    tensor.weight_type = float_type(weight.scalar_type());
    tensor.group = group_of(parameters[i]);
    tensor.count = weight.numel();
    tensors.push_back(tensor);
  }
  return tensors;
}

/// The parameters in the place of gradients, whose sum of squares the kernels take.
MultiTensor Optimizer::State::normed_parameters() const {
  const bool takes_masters = model.options().params_dtype == at::kBFloat16;
  const auto parameters = model.parameters();
  std::vector<kernels::AdamTensor> tensors(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = takes_masters ? states[i].master : parameters[i].tensor;
    tensors[i].gradient = tensor.const_data_ptr();
    tensors[i].gradient_type = float_type(tensor.scalar_type());
    tensors[i].count = tensor.numel();
  }
  return MultiTensor(std::move(tensors), model.options().device);
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
                                                     const Options& options) {
  MEG_RETURN_IF_ERROR(check_beta("--adam-beta1", options.betas[0]));
  MEG_RETURN_IF_ERROR(check_beta("--adam-beta2", options.betas[1]));
  auto state = std::make_unique<State>(model, std::move(scaler), options);
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
  if (state_->gradients_in_place || (only && state_->has_all_gradients())) return {};
  return libtorch::torch_guard([this] {
    const auto parameters = state_->model.parameters();
    if (!state_->gradients.defined()) state_->gradients = FlatBuffer(parameters, at::kFloat);
    for (size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor& gradient = parameters[i].tensor.mutable_grad();
      if (!gradient.defined()) continue;
      state_->gradients.views()[i].add_(gradient);
      gradient = at::Tensor();
    }
    return Status();
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
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    std::optional<MultiTensor>& parameters = state_->parameters_for_norm;
    if (!parameters.has_value()) parameters.emplace(state_->normed_parameters());
    norm = std::sqrt(parameters->statistics(/*scale=*/1).sum_of_squares);
    return Status();
  }));
  return norm;
}

Result<Optimizer::Outcome> Optimizer::step(const Rates& rates) {
  Outcome outcome;
  const Status done = libtorch::torch_guard([&]() -> Status {
    State& state = *state_;
    const float inverse_scale = state.scaler == nullptr ? 1.0F : state.scaler->inv_scale();
    state.kernels.set_gradients(state.gradient_tensors());
    const kernels::GradientStatistics found = state.kernels.statistics(inverse_scale);
    if (checks_for_nan() && found.found_inf()) return state.refuse_not_finite();
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
    return {};
  });
  MEG_RETURN_IF_ERROR(done);
  return outcome;
}

std::span<const Optimizer::ParameterState> Optimizer::states() const { return state_->states; }

Status Optimizer::copy_model_to_masters() {
  return libtorch::torch_guard([this] {
    const auto parameters = state_->model.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (state_->masters.defined()) state_->states[i].master.copy_(parameters[i].tensor.detach());
    }
    return Status();
  });
}

Status Optimizer::copy_masters_to_model() {
  return libtorch::torch_guard([this] {
    const auto parameters = state_->model.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (state_->masters.defined()) parameters[i].tensor.detach().copy_(state_->states[i].master);
    }
    return Status();
  });
}

int64_t Optimizer::updates() const { return state_->updates; }

void Optimizer::set_updates(int64_t updates) { state_->updates = updates; }

schedule::GradScaler* Optimizer::scaler() { return state_->scaler.get(); }

const Optimizer::Options& Optimizer::options() const { return state_->options; }

}  // namespace meg::train
