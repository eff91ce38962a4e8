#include <algorithm>
#include <vector>

#include "libmeg/kernels/cached_attention.h"
#include "libmeg/kernels/internal/cpu_runs.h"
#include "libmeg/kernels/product/internal/product_kernels.h"

// A unit is one row and one query group, so the group's keys and values are read from memory (and
// widened) once for all of its heads: with one new token, reading the cache is most of the work.
// Nothing is gathered, padded or masked, as each row's length says what it sees. A unit's result
// depends on no other unit, so texts that are generated together do not change each other's bits.

namespace meg::kernels {
namespace {

/// Tokens of the cache that are read at a time: few enough that their fp32 copies stay in a near
/// cache.
constexpr int64_t kBlock = 64;

/// What one thread needs beside the arrays; grows as sequences ask.
struct Buffers {
  std::vector<float> query, scores, cached, sums;
};

/// One row and one group of its heads.
class Unit {
 public:
  Unit(const CachedAttention& call, const CpuRuns& runs, Buffers& buffers, int64_t row,
       int64_t group)
      : call_(call),
        runs_(runs),
        buffers_(buffers),
        heads_(call.heads / call.groups),
        length_(call.lengths[row]),
        first_((row * call.heads + group * heads_) * call.depth),
        cached_((call.slots[row] * call.groups + group) * call.capacity * call.depth) {}

  void compute() {
    score();
    for (int64_t head = 0; head < heads_; ++head) take_softmax(scores(head));
    sum_values();
  }

 private:
  float* scores(int64_t head) { return buffers_.scores.data() + head * length_; }

  /// Tokens [begin, begin + count) of keys or values as fp32.
  const float* read(const void* elements, int64_t begin, int64_t count) {
    return runs_.read(elements, cached_ + begin * call_.depth, count * call_.depth,
                      buffers_.cached.data());
  }

  void score() {
    const int64_t elements = heads_ * call_.depth;
    buffers_.query.resize(static_cast<size_t>(elements));
    buffers_.cached.resize(static_cast<size_t>(kBlock * call_.depth));
    buffers_.scores.resize(static_cast<size_t>(heads_ * length_));
    const float* query = runs_.read(call_.query, first_, elements, buffers_.query.data());
    for (int64_t i = 0; i < elements; ++i) {
      buffers_.query[static_cast<size_t>(i)] = query[i] * call_.scale;
    }
    ProductCall product;
    product.input = buffers_.query.data();
    product.rows = heads_;
    product.depth = product.input_stride = call_.depth;
    product.output_stride = length_;
    for (int64_t begin = 0; begin < length_; begin += kBlock) {
      product.columns = std::min(kBlock, length_ - begin);
      product.weight = read(call_.keys, begin, product.columns);
      product.output = scores(0) + begin;
      kernels_.product(product);
    }
  }

  void take_softmax(float* scores) {
    const float maximum = runs_.loops().maximum(scores, length_);
    const double sum = runs_.loops().sum_exp(scores, maximum, length_);
    runs_.loops().scaled_exp(scores, maximum, static_cast<float>(1 / sum), scores, length_);
  }

  void sum_values() {
    const int64_t elements = heads_ * call_.depth;
    buffers_.sums.assign(static_cast<size_t>(elements), 0);
    for (int64_t begin = 0; begin < length_; begin += kBlock) {
      const int64_t count = std::min(kBlock, length_ - begin);
      const float* values = read(call_.values, begin, count);
      for (int64_t head = 0; head < heads_; ++head) {
        kernels_.weighted_sum(scores(head) + begin, values, count, call_.depth,
                              buffers_.sums.data() + head * call_.depth);
      }
    }
    float* output = runs_.place(call_.output, first_, buffers_.sums.data());
    if (output != buffers_.sums.data()) std::copy_n(buffers_.sums.data(), elements, output);
    runs_.write(output, call_.output, first_, elements);
  }

  const CachedAttention& call_;
  const CpuRuns& runs_;
  const ProductKernels& kernels_ = product_kernels(best_instruction_set());
  Buffers& buffers_;
  int64_t heads_;   ///< Of the group.
  int64_t length_;  ///< Keys that the row sees.
  int64_t first_;   ///< The group's first element of query and output.
  int64_t cached_;  ///< The group's first element of keys and values.
};

}  // namespace

void cached_attention_cpu(const CachedAttention& call, int64_t begin, int64_t end) {
  const CpuRuns runs(call.type);
  Buffers buffers;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i / call.groups;
    if (call.lengths[row] > 0) Unit(call, runs, buffers, row, i % call.groups).compute();
  }
}

}  // namespace meg::kernels
