#include "libmeg/train/optimizer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/train/internal/optimizer_state.h"

// Adam's step as the trainer sees it. The tensors of the state are in optimizer_state.cpp, the sums
// over ranks in reduce_gradients.cpp, the arithmetic in kernels/optimizer. A step reads the
// gradients twice: once for their norm, zeros and inf, once for the update itself, to which
// unscaling and clipping are handed as one factor. Megatron writes the gradients back after each of
// these; here they are never written, which saves two passes over memory.

namespace meg::train {
namespace {

using libtorch::torch_guard;

// Added to the norm that clipping divides by: megatron/core/optimizer/clip_grads.py:
// clip_grad_by_total_norm_fp32.
constexpr double kClipEpsilon = 1e-6;

/// With 1 a moment stays zero and its correction divides by zero.
Status check_beta(std::string_view field, double beta) {
  if (beta >= 0 && beta < 1) return {};
  return make_error(StatusCode::kInvalidArgument, "{}: expected 0 to less than 1, found {}", field,
                    beta);
}

Status check_buckets(const Optimizer::Options& options) {
  if (!options.ddp_bucket_size || !options.ddp_num_buckets) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "`ddp_num_buckets` {}: cannot be combined with `ddp_bucket_size` {}",
                    *options.ddp_num_buckets, *options.ddp_bucket_size);
}

/// What Megatron's validate_args asserts.
Status check_param_gather(const Optimizer::Options& options) {
  if (!options.overlap_param_gather) return {};
  if (!options.use_distributed_optimizer) {
    return Status(StatusCode::kInvalidArgument,
                  "`overlap_param_gather`: requires `use_distributed_optimizer`");
  }
  if (!options.overlap_grad_reduce) {
    return Status(StatusCode::kInvalidArgument,
                  "`overlap_param_gather`: requires `overlap_grad_reduce`");
  }
  return {};
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

}  // namespace

Optimizer::Optimizer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Optimizer::~Optimizer() = default;

Result<std::unique_ptr<Optimizer>> Optimizer::create(const ModelChunks& model,
                                                     std::unique_ptr<schedule::GradScaler> scaler,
                                                     const Options& options,
                                                     const parallel::ParallelState& ranks) {
  MEG_RETURN_IF_ERROR(check_beta("`adam_beta1`", options.betas[0]));
  MEG_RETURN_IF_ERROR(check_beta("`adam_beta2`", options.betas[1]));
  MEG_RETURN_IF_ERROR(check_buckets(options));
  MEG_RETURN_IF_ERROR(check_param_gather(options));
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
  // Only a dynamic scaler can do something about inf and NaN (lower the scale); state_dict() tells
  // it from a constant one.
  const bool is_dynamic = state_->scaler != nullptr && state_->scaler->state_dict().has_value();
  return state_->options.check_for_nan_in_loss_and_grad && !is_dynamic;
}

double Optimizer::loss_scale() const {
  return state_->scaler == nullptr ? 1.0 : state_->scaler->scale();
}

Status Optimizer::zero_grad(const StepGradients& step) {
  return libtorch::torch_guard([&] {
    // With one rank, one micro-batch and no scaling of the sum, autograd's own tensors are the
    // step's gradients: the buffer of all gradients is not needed, nor is the pass that would add
    // to it.
    const bool stays = state_->may_stay && step.only && state_->ranks.mesh().world_size() == 1;
    state_->zero_gradients(stays);
    state_->reduction_scale = step.scale;
    state_->reductions.clear();
    state_->reductions.resize(state_->layout.buckets().size());
    if (state_->buckets.has_value()) state_->buckets->begin_step();
    return Status();
  });
}

void Optimizer::expect_gradients(bool last) {
  if (state_->buckets.has_value()) state_->buckets->expect(last);
}

Status Optimizer::reduce_gradients() {
  return libtorch::torch_guard([&] { return state_->reduce_gradients(); });
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
    MEG_RETURN_IF_ERROR(state_->finish_gathers());
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
    // Ask before the sum over ranks: afterwards every rank sees a sum that is not finite, and only
    // this says whose it was.
    const bool found_here = found.found_inf();
    MEG_RETURN_IF_ERROR(state.over_ranks(found));
    if (checks_for_nan() && found.found_inf()) return state.refuse_not_finite(found_here);
    if (state.scaler != nullptr) {
      outcome.skipped = found.found_inf();
      // Every rank updates its scaler with the same answer, so that all skip the same steps and
      // keep the same scale.
      state.scaler->update(found.found_inf());
      if (outcome.skipped) return {};
    }
    // Rounded to fp32 before it clips, as apex's multi_tensor_l2norm returns the norm that Megatron
    // clips by: the double would give other weights in the last bit.
    const auto norm = static_cast<float>(std::sqrt(found.sum_of_squares));
    outcome.grad_norm = double{norm};
    float clip = 1;
    if (state.options.clip_grad > 0) {
      const double coefficient = state.options.clip_grad / (double{norm} + kClipEpsilon);
      if (coefficient < 1) clip = static_cast<float>(coefficient);
    }
    if (state.options.log_num_zeros_in_grad) outcome.num_zeros = found.num_zeros;
    // Forward passes waited for what they used; what none used is waited for here.
    MEG_RETURN_IF_ERROR(state.finish_gathers());
    // From here on nothing can fail halfway: all checks came before the first weight is written.
    state.kernels.adam(state.adam_step(rates, inverse_scale, clip));
    ++state.updates;
    if (state.is_distributed()) return state.gather_weights();
    return {};
  });
  MEG_RETURN_IF_ERROR(done);
  return outcome;
}

Status Optimizer::finish_gathers() {
  return libtorch::torch_guard([this] { return state_->finish_gathers(); });
}

Result<std::vector<Optimizer::ParameterState>> Optimizer::states() {
  std::vector<ParameterState> states;
  // A distributed rank has only its share of each bucket. Buckets are gathered one at a time
  // straight into their place of the whole array, so that the peak is one array of fp32 elements
  // for each of the three, not twice that.
  const Status done = libtorch::torch_guard([&]() -> Status {
    const auto gathered = [this](const at::Tensor& part, at::Tensor& whole) -> Status {
      if (!state_->is_distributed() || !part.defined()) {
        whole = part;
        return {};
      }
      whole = at::empty({state_->layout.elements()}, part.options());
      for (const FlatLayout::Bucket& bucket : state_->layout.buckets()) {
        MEG_RETURN_IF_ERROR(state_->copies_of(bucket).all_gather(
            state_->layout.of_bucket(bucket, whole),
            part.narrow(0, bucket.place, bucket.part_elements)));
      }
      return {};
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
  // Otherwise states() returned the optimizer's own tensors and they are written already.
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
    MEG_RETURN_IF_ERROR(state_->finish_gathers());
    state_->copy_masters(
        [](const at::Tensor& master, const at::Tensor& weight) { weight.copy_(master); });
    // This rank rounded its share alone; the other shares come from their ranks.
    return state_->is_distributed() ? state_->gather_weights() : Status();
  });
}

Optimizer::Held Optimizer::held_bytes() const {
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  };
  Held held = {
      .parameters = bytes(state_->weights.flat()),
      .gradients = bytes(state_->gradients.flat()),
      .state = bytes(state_->masters) + bytes(state_->exp_avg) + bytes(state_->exp_avg_sq)};
  // Parameters live in `weights` only with a distributed optimizer; else each has memory of its
  // own.
  if (state_->weights.defined()) return held;
  for (const nn::GptParameter& parameter : state_->model.parameters()) {
    held.parameters += bytes(parameter.tensor);
  }
  return held;
}

int64_t Optimizer::updates() const { return state_->updates; }

void Optimizer::set_updates(int64_t updates) { state_->updates = updates; }

schedule::GradScaler* Optimizer::scaler() { return state_->scaler.get(); }

const Optimizer::Options& Optimizer::options() const { return state_->options; }

}  // namespace meg::train
