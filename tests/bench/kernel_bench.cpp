// kernel_bench: the CPU kernels beside ATen, at the shapes of the 12-layer model of 768 with 4096
// tokens a step, on one thread and on all. Results are compared before time counts.
//
// Google Benchmark's flags choose and repeat: --benchmark_filter=gelu --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/kernels/attention/rotary_heads.h"
#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"
#include "libmeg/kernels/softmax_cross_entropy.h"
#include "libmeg/kernels/swiglu.h"

namespace {

using meg::kernels::FloatType;
using meg::kernels::parallel_for;

constexpr int64_t kTokens = 4096;
constexpr int64_t kVocabulary = 50304;
constexpr int64_t kFfnHidden = 3072;
constexpr int64_t kParameters = 124082688;

/// Work done by libmeg's kernel and by ATen, and the arrays that must then agree.
struct Race {
  std::string name;
  std::function<void()> ours;
  std::function<void()> aten;
  std::function<std::vector<std::pair<at::Tensor, at::Tensor>>()> results;
  double tolerance;
};

meg::kernels::FloatType float_type(at::ScalarType type) {
  return type == at::kFloat ? meg::kernels::FloatType::kFloat32
                            : meg::kernels::FloatType::kBFloat16;
}

Race cross_entropy_race(at::ScalarType type) {
  struct State {
    at::Tensor logits, labels, grad_losses, losses, maxima, sums, peer_logits, peer_gradient,
        peer_losses;
  };

  auto s = std::make_shared<State>();
  s->logits = at::randn({kTokens, kVocabulary}, type);
  s->peer_logits = s->logits.clone();
  s->labels = at::randint(kVocabulary, {kTokens}, at::kLong);
  s->grad_losses = at::full({kTokens}, 1.0 / kTokens, at::kFloat);
  s->losses = at::empty({kTokens}, at::kFloat);
  s->maxima = at::empty_like(s->losses);
  s->sums = at::empty_like(s->losses);
  const auto ours = [s, type]() {
    meg::kernels::parallel_for(kTokens, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::softmax_cross_entropy_forward_cpu(
          {float_type(type), s->logits.data_ptr(), s->labels.data_ptr<int64_t>(),
           s->losses.data_ptr<float>(), s->maxima.data_ptr<float>(), s->sums.data_ptr<float>(),
           kTokens, kVocabulary},
          begin, end);
    });
    meg::kernels::parallel_for(kTokens, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::softmax_cross_entropy_backward_cpu(
          {float_type(type), s->logits.data_ptr(), s->labels.data_ptr<int64_t>(),
           s->maxima.data_ptr<float>(), s->sums.data_ptr<float>(), s->grad_losses.data_ptr<float>(),
           s->logits.data_ptr(), kTokens, kVocabulary},
          begin, end);
    });
  };
  const auto aten = [s] {  // what cross_entropy and its autograd call
    const at::Tensor log_softmax = at::_log_softmax(s->peer_logits, 1, false);
    const auto [losses, weight] = at::nll_loss_forward(log_softmax, s->labels, {}, 0, -100);
    const at::Tensor gradient = at::nll_loss_backward(s->grad_losses.to(log_softmax.dtype()),
                                                      log_softmax, s->labels, {}, 0, -100, weight);
    s->peer_gradient =
        at::_log_softmax_backward_data(gradient, log_softmax, 1, log_softmax.scalar_type());
    s->peer_losses = losses;
  };
  const auto results = [s] {
    return std::vector<std::pair<at::Tensor, at::Tensor>>{{s->losses, s->peer_losses},
                                                          {s->logits, s->peer_gradient}};
  };
  return {"", ours, aten, results, type == at::kFloat ? 1e-5 : 0.1};
}

Race adam_race() {
  struct State {
    at::Tensor gradient, master, exp_avg, exp_avg_sq;
    std::vector<at::Tensor> peer_gradient, peer, peer_avg, peer_avg_sq, steps;
    std::vector<meg::kernels::GradientStatistics> of_chunks;
    int64_t step = 0;
  };

  auto s = std::make_shared<State>();
  s->gradient = at::randn({kParameters}, at::kFloat).mul_(1e-3);
  s->master = at::randn({kParameters}, at::kFloat).mul_(0.02);
  s->exp_avg = at::zeros_like(s->master);
  s->exp_avg_sq = at::zeros_like(s->master);
  s->peer_gradient = {s->gradient.clone()};
  s->peer = {s->master.clone()};
  s->peer_avg = {s->exp_avg.clone()};
  s->peer_avg_sq = {s->exp_avg_sq.clone()};
  s->steps = {at::zeros({}, at::kFloat)};
  const auto ours = [s]() {
    meg::kernels::GradientTensor gradient{s->gradient.data_ptr(), meg::kernels::FloatType::kFloat32,
                                          kParameters};
    const int64_t chunks = meg::kernels::number_chunks(&gradient, 1);
    s->of_chunks.resize(static_cast<size_t>(chunks));
    meg::kernels::parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::gradient_statistics_cpu(&gradient, 1, 1, s->of_chunks.data(), begin, end);
    });
    const double norm =
        std::sqrt(meg::kernels::total_statistics(s->of_chunks.data(), chunks).sum_of_squares);
    meg::kernels::AdamTensor tensor{s->gradient.data_ptr(), meg::kernels::FloatType::kFloat32,
                                    s->master.data_ptr<float>(), s->exp_avg.data_ptr<float>(),
                                    s->exp_avg_sq.data_ptr<float>()};
    tensor.count = kParameters;
    meg::kernels::number_chunks(&tensor, 1);
    meg::kernels::AdamStep step;
    ++s->step;
    step.bias_correction1 = meg::kernels::adam_bias_correction(step.beta1, s->step);
    step.bias_correction2 = meg::kernels::adam_bias_correction(step.beta2, s->step);
    step.clip_coefficient = static_cast<float>(std::min(1.0, 1 / (norm + 1e-6)));
    step.groups[0] = {1e-4f, 0.01f};
    meg::kernels::parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::multi_tensor_adam_cpu(&tensor, 1, step, begin, end);
    });
  };
  const auto aten = [s] {
    const double norm = at::_foreach_norm(s->peer_gradient)[0].item<double>();
    // Clip as training does, where every step has new gradients: ours clips a copy in registers.
    if (norm > 1) at::_foreach_mul_(s->peer_gradient, 1 / (norm + 1e-6));
    s->steps[0] += 1;
    at::_fused_adamw_(s->peer, s->peer_gradient, s->peer_avg, s->peer_avg_sq, {}, s->steps, 1e-4,
                      0.9, 0.999, 0.01, 1e-8, false, false);
    if (norm > 1) s->peer_gradient[0].select(0, 0).add_(1.5);  // so that the next step clips too
  };
  const auto results = [s] {
    return std::vector<std::pair<at::Tensor, at::Tensor>>{{s->master, s->peer[0]},
                                                          {s->exp_avg, s->peer_avg[0]}};
  };
  return {"", ours, aten, results, 1e-5};
}

/// Arrays of both directions of bias-GELU.
struct GeluState {
  explicit GeluState(at::ScalarType type)
      : input(at::randn({kTokens, kFfnHidden}, type)),
        bias(at::randn({kFfnHidden}, type)),
        grad_output(at::randn({kTokens, kFfnHidden}, type)),
        sum(input + bias) {}

  at::Tensor input, bias, grad_output, sum, result, peer_result;
};

Race gelu_race(at::ScalarType type) {
  auto s = std::make_shared<GeluState>(type);
  const auto ours = [s, type]() {
    s->result = at::empty_like(s->input);  // ATen's result is new each time, too
    meg::kernels::parallel_for(kTokens, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::bias_gelu_forward_cpu(
          {float_type(type), s->input.data_ptr(), s->bias.data_ptr(), s->result.data_ptr(), kTokens,
           kFfnHidden},
          begin, end);
    });
  };
  const auto aten = [s] { s->peer_result = at::gelu(s->input + s->bias, "tanh"); };
  const auto results = [s] {
    return std::vector<std::pair<at::Tensor, at::Tensor>>{{s->result, s->peer_result}};
  };
  return {"", ours, aten, results, type == at::kFloat ? 2e-6 : 4e-2};
}

Race gelu_backward_race(at::ScalarType type) {
  auto s = std::make_shared<GeluState>(type);
  const auto ours = [s, type]() {
    s->result = at::empty_like(s->input);  // ATen's result is new each time, too
    meg::kernels::parallel_for(kTokens, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::bias_gelu_backward_cpu(
          {float_type(type), s->grad_output.data_ptr(), s->input.data_ptr(), s->bias.data_ptr(),
           s->result.data_ptr(), kTokens, kFfnHidden},
          begin, end);
    });
  };
  const auto aten = [s] { s->peer_result = at::gelu_backward(s->grad_output, s->sum, "tanh"); };
  const auto results = [s] {
    return std::vector<std::pair<at::Tensor, at::Tensor>>{{s->result, s->peer_result}};
  };
  return {"", ours, aten, results, type == at::kFloat ? 5e-6 : 6e-2};
}

/// Whether both did the same; says where not.
bool agree(const Race& race) {
  race.ours();
  race.aten();
  for (const auto& [found, wanted] : race.results()) {
    const double difference =
        (found.to(at::kFloat) - wanted.to(at::kFloat)).abs().max().item<double>();
    if (difference <= race.tolerance) continue;
    std::fprintf(stderr, "%s: results differ by %g\n", race.name.c_str(), difference);
    return false;
  }
  return true;
}

using MakeRace = std::function<Race()>;

/// The race called `name`, made and compared where it is not the last one used: one race's arrays
/// at a time are in memory. Null where results differ.
Race* race_named(const std::string& name, const MakeRace& make) {
  static Race race;
  static bool agrees = false;
  if (race.name != name) {
    race = Race();
    race = make();
    race.name = name;
    agrees = agree(race);
  }
  return agrees ? &race : nullptr;
}

void register_race(const std::string& name, const MakeRace& make) {
  for (const int threads : {1, meg::available_processors()}) {
    for (const bool ours : {true, false}) {
      const std::string whole =
          name + "/threads:" + std::to_string(threads) + (ours ? "/libmeg" : "/aten");
      const auto body = [name, make, threads, ours](benchmark::State& state) {
        at::set_num_threads(threads);
        Race* race = race_named(name, make);
        if (race == nullptr) return state.SkipWithError("results differ");
        for (auto _ : state) {
          if (ours) {
            race->ours();
          } else {
            race->aten();
          }
        }
      };
      benchmark::RegisterBenchmark(whole.c_str(), body)
          ->Unit(benchmark::kMillisecond)
          ->MeasureProcessCPUTime()
          ->UseRealTime();
    }
  }
}

/// Arrays of both directions of SwiGLU.
struct SwigluState {
  explicit SwigluState(at::ScalarType type)
      : input(at::randn({kTokens, 2 * kFfnHidden}, type)),
        grad_output(at::randn({kTokens, kFfnHidden}, type)) {}

  at::Tensor input, grad_output, result, peer_result;
};

Race swiglu_race(at::ScalarType type) {
  auto s = std::make_shared<SwigluState>(type);
  const auto ours = [s, type]() {
    s->result = at::empty_like(s->grad_output);
    meg::kernels::parallel_for(kTokens, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::swiglu_forward_cpu(
          {float_type(type), s->input.data_ptr(), s->result.data_ptr(), kTokens, kFfnHidden}, begin,
          end);
    });
  };
  const auto aten = [s] {
    const std::vector<at::Tensor> halves = s->input.chunk(2, -1);
    s->peer_result = at::silu(halves[0]) * halves[1];
  };
  const auto results = [s] {
    return std::vector<std::pair<at::Tensor, at::Tensor>>{{s->result, s->peer_result}};
  };
  return {"", ours, aten, results, type == at::kFloat ? 5e-6 : 0.2};
}

Race swiglu_backward_race(at::ScalarType type) {
  auto s = std::make_shared<SwigluState>(type);
  const auto ours = [s, type]() {
    s->result = at::empty_like(s->input);
    meg::kernels::parallel_for(kTokens, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::swiglu_backward_cpu(
          {float_type(type), s->grad_output.data_ptr(), s->input.data_ptr(), s->result.data_ptr(),
           kTokens, kFfnHidden},
          begin, end);
    });
  };
  // What autograd does of the operators, with silu(gate) kept.
  const auto kept = std::make_shared<at::Tensor>(at::silu(s->input.chunk(2, -1)[0]));
  const auto aten = [s, kept] {
    const std::vector<at::Tensor> halves = s->input.chunk(2, -1);
    s->peer_result = at::cat(
        {at::silu_backward(s->grad_output * halves[1], halves[0]), s->grad_output * *kept}, -1);
  };
  const auto results = [s] {
    return std::vector<std::pair<at::Tensor, at::Tensor>>{{s->result, s->peer_result}};
  };
  return {"", ours, aten, results, type == at::kFloat ? 5e-6 : 0.2};
}

/// Rotary embedding of the queries and keys of 12 heads, out of the array that they come in.
Race rotary_heads_race(at::ScalarType type) {
  constexpr int64_t kHeads = 12, kChannels = 64;

  struct State {
    at::Tensor mixed, cosine, sine, result, peer_result;
  };

  const auto s = std::make_shared<State>();
  s->mixed = at::randn({1, kTokens, kHeads, 3, kChannels}, type);
  const at::Tensor angles = at::randn({kTokens, 1, kChannels / 2}).repeat({1, 1, 2});
  s->cosine = angles.cos().to(type);
  s->sine = angles.sin().to(type);
  const auto ours = [s, type] {
    s->result = at::empty({2, kTokens, kHeads, kChannels}, type);
    meg::kernels::RotaryHeads call{.type = float_type(type),
                                   .copies = {},
                                   .cosine = s->cosine.const_data_ptr(),
                                   .sine = s->sine.const_data_ptr(),
                                   .rows = 1,
                                   .tokens = kTokens,
                                   .groups = kHeads,
                                   .channels = kChannels,
                                   .turned = kChannels};
    for (int64_t part = 0; part < 2; ++part) {
      call.copies[part] = {.from = s->mixed.select(3, part).const_data_ptr(),
                           .from_strides = {0, 3 * kHeads * kChannels, 3 * kChannels, 0},
                           .to = s->result[part].mutable_data_ptr(),
                           .to_strides = {0, kHeads * kChannels, kChannels, 0},
                           .heads = 1,
                           .is_turned = true};
    }
    meg::kernels::parallel_for(kTokens, 1, [&](int64_t begin, int64_t end) {
      meg::kernels::rotary_heads_cpu(call, begin, end);
    });
  };
  const auto aten = [s] {
    std::vector<at::Tensor> parts;
    for (int64_t part = 0; part < 2; ++part) {
      const at::Tensor heads = s->mixed[0].select(2, part);
      const std::vector<at::Tensor> halves = heads.chunk(2, -1);
      parts.push_back(heads * s->cosine + at::cat({-halves[1], halves[0]}, -1) * s->sine);
    }
    s->peer_result = at::stack(parts);
  };
  const auto results = [s] {
    return std::vector<std::pair<at::Tensor, at::Tensor>>{{s->result, s->peer_result}};
  };
  return {"", ours, aten, results, type == at::kFloat ? 5e-6 : 6e-2};
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& [type, name] :
       {std::pair(at::kFloat, "fp32"), std::pair(at::kBFloat16, "bf16")}) {
    const auto with_type = [type = type](Race make(at::ScalarType)) {
      return [type, make] { return make(type); };
    };
    const std::string suffix = std::string("/") + name;
    register_race("cross_entropy_4096x50304" + suffix, with_type(cross_entropy_race));
    register_race("bias_gelu_4096x3072" + suffix, with_type(gelu_race));
    register_race("bias_gelu_backward_4096x3072" + suffix, with_type(gelu_backward_race));
    register_race("swiglu_4096x3072" + suffix, with_type(swiglu_race));
    register_race("swiglu_backward_4096x3072" + suffix, with_type(swiglu_backward_race));
    register_race("rotary_heads_4096x12x64" + suffix, with_type(rotary_heads_race));
  }
  register_race("adam_norm_clip_124M/fp32", adam_race);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
