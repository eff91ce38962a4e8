#include <algorithm>
#include <cmath>
#include <limits>

#include "libmeg/kernels/internal/cpu_runs.h"
#include "libmeg/kernels/softmax_cross_entropy.h"

namespace meg::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct SoftmaxOfRow {
  float maximum = -kInfinity;
  double sum = 0;
};

/// Makes one walk over the row: where a run brings a larger maximum, the sum so far is scaled to
/// it.
SoftmaxOfRow softmax_of_row(const CpuRuns& runs, const void* logits, int64_t begin,
                            int64_t columns) {
  SoftmaxOfRow row;
  float buffer[kRunElements];
  for (int64_t column = 0; column < columns; column += kRunElements) {
    const int64_t count = std::min(kRunElements, columns - column);
    const float* values = runs.read(logits, begin + column, count, buffer);
    const float maximum = runs.loops().maximum(values, count);
    if (maximum > row.maximum) {
      row.sum *= std::exp(double{row.maximum} - double{maximum});
      row.maximum = maximum;
    }
    // A run of nothing but -infinity is shifted by 0: -infinity less itself would be NaN instead of
    // a share of 0.
    row.sum += runs.loops().sum_exp(values, row.maximum == -kInfinity ? 0 : row.maximum, count);
  }
  return row;
}

float logit_at(const CpuRuns& runs, const void* logits, int64_t index) {
  float buffer = 0;
  return *runs.read(logits, index, 1, &buffer);
}

/// The first row whose label is outside [0, columns), or -1.
int64_t first_bad_label(const SoftmaxCrossEntropyForward& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    if (call.labels[row] < 0 || call.labels[row] >= call.columns) return row;
  }
  return -1;
}

}  // namespace

int64_t softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropyForward& call, int64_t row_begin,
                                          int64_t row_end) {
  if (const int64_t bad = first_bad_label(call, row_begin, row_end); bad >= 0) return bad;
  const CpuRuns runs(call.type);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t begin = row * call.columns;
    const SoftmaxOfRow softmax = softmax_of_row(runs, call.logits, begin, call.columns);
    const double label_logit = logit_at(runs, call.logits, begin + call.labels[row]);
    call.losses[row] =
        // Compute in fp64 and round once: the loss is the difference of two numbers that may be
        // large and alike.
        static_cast<float>(std::log(softmax.sum) + (double{softmax.maximum} - label_logit));
    call.maxima[row] = softmax.maximum;
    call.sums[row] = static_cast<float>(softmax.sum);
  }
  return -1;
}

void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropyBackward& call, int64_t row_begin,
                                        int64_t row_end) {
  const CpuRuns runs(call.type);
  float read_room[kRunElements];
  float write_room[kRunElements];
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float scale = call.grad_losses[row] / call.sums[row];
    for (int64_t column = 0; column < call.columns; column += kRunElements) {
      const int64_t begin = row * call.columns + column;
      const int64_t count = std::min(kRunElements, call.columns - column);
      const float* values = runs.read(call.logits, begin, count, read_room);
      float* gradient = runs.place(call.grad_logits, begin, write_room);
      runs.loops().scaled_exp(values, call.maxima[row], scale, gradient, count);
      const int64_t label = call.labels[row] - column;
      if (label >= 0 && label < count) gradient[label] -= call.grad_losses[row];
      runs.write(gradient, call.grad_logits, begin, count);
    }
  }
}

int64_t softmax_cross_entropy_forward_backward_cpu(const SoftmaxCrossEntropyForward& call,
                                                   const float* grad_losses, void* grad_logits,
                                                   int64_t row_begin, int64_t row_end) {
  if (const int64_t bad = first_bad_label(call, row_begin, row_end); bad >= 0) return bad;
  const SoftmaxCrossEntropyBackward backward{call.type,   call.logits, call.labels,
                                             call.maxima, call.sums,   grad_losses,
                                             grad_logits, call.rows,   call.columns};
  for (int64_t row = row_begin; row < row_end; ++row) {
    // Row by row, so that the second walk finds the row in the cache. The gradient may overwrite
    // the logits, as forward has read its row by then.
    softmax_cross_entropy_forward_cpu(call, row, row + 1);
    softmax_cross_entropy_backward_cpu(backward, row, row + 1);
  }
  return -1;
}

}  // namespace meg::kernels
