#include "libmeg/nn/operators/internal/vocab_parallel.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <vector>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/operators/internal/exchange.h"

namespace meg::nn {
namespace {

using parallel::Reduction;

/// Tokens as rows of this rank's part of the vocabulary, and which of them are none of its.
struct LocalRows {
  at::Tensor rows;       ///< 0 where the token is another rank's.
  at::Tensor is_others;  ///< bool
};

LocalRows local_rows(const at::Tensor& tokens, int64_t count, const TensorParallel& ranks) {
  const at::Tensor rows = tokens - count * ranks.rank();
  const at::Tensor is_others = rows.lt(0).logical_or_(rows.ge(count));
  return {.rows = rows.masked_fill(is_others, 0), .is_others = is_others};
}

void reduce(const at::Tensor& tensor, Reduction reduction, const TensorParallel& ranks) {
  libtorch::throw_if_error(ranks.group->all_reduce(tensor, reduction));
}

/// Whether a number is not 0 to `rows` - 1; a bool on their device.
at::Tensor any_outside(const at::Tensor& numbers, int64_t rows) {
  return numbers.lt(0).logical_or_(numbers.ge(rows)).any();
}

}  // namespace

void note_bad_labels(const at::Tensor& labels, int64_t rows, const at::Tensor& label_error) {
  if (!labels.is_cpu()) label_error.bitwise_or_(any_outside(labels, rows));
}

at::Tensor vocab_parallel_embedding(const at::Tensor& weight, const at::Tensor& tokens,
                                    const TensorParallel& ranks) {
  if (ranks.size() == 1) return at::embedding(weight, tokens);
  // Every rank would take it for another's.
  const int64_t rows = weight.size(0) * ranks.size();
  if (!tokens.is_cpu()) at::_assert_async(any_outside(tokens, rows).logical_not_());
  const LocalRows local = local_rows(tokens, weight.size(0), ranks);
  const at::Tensor partial =
      at::embedding(weight, local.rows).masked_fill(local.is_others.unsqueeze(-1), 0);
  return sum_of_ranks(partial, ranks);
}

at::Tensor whole_vocabulary(const at::Tensor& logits, const TensorParallel& ranks) {
  if (ranks.size() == 1) return logits;
  const c10::NoGradGuard without_gradients;
  const at::Tensor part = logits.detach().contiguous();
  std::vector<int64_t> shape = part.sizes().vec();
  shape.insert(shape.begin(), ranks.size());
  const at::Tensor parts = at::empty(shape, part.options());
  libtorch::throw_if_error(ranks.group->all_gather(parts, part));
  return parts.movedim(0, -2).flatten(-2);
}

LossesAndGradient vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                               const at::Tensor& grad_losses,
                                               const TensorParallel& ranks) {
  const c10::NoGradGuard without_gradients;
  const LocalRows local = local_rows(labels, logits.size(-1), ranks);
  const at::Tensor row = local.rows.unsqueeze(-1);
  const at::Tensor maxima = logits.amax(-1).to(at::kFloat);
  reduce(maxima, Reduction::kMax, ranks);
  at::Tensor exponentials = logits.detach().to(at::kFloat) - maxima.unsqueeze(-1);
  const at::Tensor predicted =
      exponentials.gather(-1, row).squeeze(-1).masked_fill_(local.is_others, 0);
  reduce(predicted, Reduction::kSum, ranks);
  exponentials.exp_();
  const at::Tensor sums = exponentials.sum(-1);
  reduce(sums, Reduction::kSum, ranks);
  LossesAndGradient found{.losses = sums.log() - predicted, .grad_logits = {}};
  if (!grad_losses.defined()) return found;
  const at::Tensor gradient = exponentials.div_(sums.unsqueeze(-1));
  const at::Tensor own = local.is_others.logical_not().to(at::kFloat).unsqueeze(-1);
  gradient.scatter_add_(-1, row, own.neg()).mul_(grad_losses.unsqueeze(-1));
  found.grad_logits = gradient.to(logits.scalar_type());
  return found;
}

}  // namespace meg::nn
