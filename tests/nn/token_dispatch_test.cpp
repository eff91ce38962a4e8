#include "libmeg/nn/layers/internal/token_dispatch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "libmeg/parallel/parallel_state.h"
#include "tests/launch_ranks.h"

namespace meg::nn {
namespace {

constexpr int64_t kExperts = 4, kHidden = 3;

/// What a dispatch makes of tokens, with the gradients of a weighted sum.
struct Outcome {
  at::Tensor output, grad_tokens, grad_router, grad_experts;

  std::vector<at::Tensor> tensors() const {
    return {output, grad_tokens, grad_router, grad_experts};
  }
};

using Dispatch = decltype(&dispatch_all_to_all);

/// choices: [t, k].
Outcome outcome_of(Dispatch dispatch, const at::Tensor& choices, const ExpertParallel& ranks,
                   int rank) {
  const auto numbers = [](at::IntArrayRef shape, int64_t seed) {
    return (at::arange(c10::multiply_integers(shape)).add(seed).mul(7919).remainder(101) / 101.0 -
            0.5)
        .view(shape)
        .to(at::kDouble);
  };
  const at::Tensor tokens = numbers({choices.size(0), kHidden}, 13 * rank).requires_grad_(true);
  const at::Tensor router =
      numbers({choices.size(0), choices.size(1)}, 29 * rank + 1).requires_grad_(true);
  const at::Tensor experts = numbers({kExperts, kHidden, kHidden}, 5).requires_grad_(true);
  const int64_t first = ranks.model_rank() * kExperts / ranks.model_size();
  const auto compute = [&](int64_t expert, const at::Tensor& rows) {
    const at::Tensor weight = experts[first + expert];
    const at::Tensor inner = at::tanh(rows.matmul(weight));
    // The terms of a sum over the inner elements, of which a rank has every tensor_size-th.
    at::Tensor own = at::zeros({kHidden}, at::kDouble);
    for (int64_t i = ranks.tensor_rank(); i < kHidden; i += ranks.tensor_size) own[i] = 1;
    return (inner * own).matmul(weight.t());
  };
  Outcome outcome;
  outcome.output =
      dispatch(tokens, {.experts = choices, .weights = router}, kExperts, ranks, compute);
  (outcome.output * numbers(outcome.output.sizes(), 3 * rank)).sum().backward();
  outcome.grad_tokens = tokens.grad();
  outcome.grad_router = router.grad();
  outcome.grad_experts = experts.grad();
  return outcome;
}

void expect_forms_agree(int tensor, int expert_tensor) {
  auto state = parallel::ParallelState::connect(
      *parallel::read_launch_environment(), {tensor, 1, 2, 0, 1},
      parallel::RankOrder::kDataBeforePipeline, std::chrono::minutes(1), {}, expert_tensor);
  ASSERT_TRUE(state.has_value()) << state.error().message();
  const int rank = state->mesh().rank();
  const ExpertParallel ranks = {.group = state->experts(), .tensor_size = expert_tensor};
  // Expert 2 gets no token of anybody, and the last rank has none for expert 0 either.
  const at::Tensor choices = rank == 3 ? at::tensor({1, 3, 3, 1, 1, 3}, at::kLong).view({3, 2})
                                       : at::tensor({0, 1, 3, 0, 1, 0}, at::kLong).view({3, 2});
  // Alone a rank has all experts.
  Outcome expected = outcome_of(dispatch_all_to_all, choices, {}, rank);
  ASSERT_TRUE(state->experts()->all_reduce(expected.grad_experts).ok());
  for (const Dispatch dispatch : {&dispatch_all_to_all, &dispatch_all_gather}) {
    Outcome found = outcome_of(dispatch, choices, ranks, rank);
    // Of an expert each rank has the gradient of its part.
    ASSERT_TRUE(state->experts()->all_reduce(found.grad_experts).ok());
    for (size_t i = 0; i < found.tensors().size(); ++i) {
      EXPECT_TRUE(at::allclose(found.tensors()[i], expected.tensors()[i], 1e-12, 1e-12)) << i;
    }
  }
  // Ranks with different numbers of tokens, one of them with none.
  const at::Tensor own = choices.narrow(0, 0, rank);
  EXPECT_TRUE(at::allclose(outcome_of(dispatch_all_to_all, own, ranks, rank).output,
                           outcome_of(dispatch_all_to_all, own, {}, rank).output, 1e-12, 1e-12));
}

TEST(TokenDispatchTest, BothFormsComputeWhatOneRankDoes) {
  if (test::launched_ranks(4)) return;
  int runs = 0;
  for (const auto& [tensor, expert_tensor] : {std::pair(1, 1), {2, 2}, {2, 1}}) {
    ::setenv("TORCHELASTIC_RESTART_COUNT", std::to_string(runs++).c_str(), /*overwrite=*/1);
    expect_forms_agree(tensor, expert_tensor);
  }
}

}  // namespace
}  // namespace meg::nn
