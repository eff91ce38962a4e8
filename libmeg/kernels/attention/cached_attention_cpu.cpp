#include <algorithm>
#include <cstring>
#include <vector>

#include "libmeg/kernels/attention/cached_attention.h"
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
        row_(row),
        group_(group),
        heads_(call.heads / call.groups),
        length_(call.lengths[row]),
        cached_((call.slots[row] * call.groups + group) * call.capacity * call.depth) {}

  void compute() {
    // First, as a token sees itself: its own key is the last of the length_ keys.
    keep(call_.new_keys, call_.keys);
    keep(call_.new_values, call_.values);
    score();
    for (int64_t head = 0; head < heads_; ++head) take_softmax(scores(head));
    sum_values();
  }

 private:
  float* scores(int64_t head) { return buffers_.scores.data() + head * length_; }

  /// Copies the row's own key or value into the cache.
  void keep(const HeadRows& heads, void* cache) const {
    const auto size = static_cast<size_t>(float_type_size(call_.type));
    const auto from =
        static_cast<size_t>(row_ * heads.row_stride + group_ * heads.head_stride) * size;
    const auto to = static_cast<size_t>(cached_ + (length_ - 1) * call_.depth) * size;
    std::memcpy(static_cast<std::byte*>(cache) + to,
                static_cast<const std::byte*>(heads.data) + from,
                static_cast<size_t>(call_.depth) * size);
  }

  /// The group's queries, scaled.
  void read_queries() {
    buffers_.query.resize(static_cast<size_t>(heads_ * call_.depth));
    for (int64_t head = 0; head < heads_; ++head) {
      float* const query = buffers_.query.data() + head * call_.depth;
      const int64_t first =
          row_ * call_.queries.row_stride + (group_ * heads_ + head) * call_.queries.head_stride;
      const float* found = runs_.read(call_.queries.data, first, call_.depth, query);
      for (int64_t i = 0; i < call_.depth; ++i) query[i] = found[i] * call_.scale;
    }
  }

  /// Tokens [begin, begin + count) of keys or values as fp32.
  const float* read(const void* elements, int64_t begin, int64_t count) {
    return runs_.read(elements, cached_ + begin * call_.depth, count * call_.depth,
                      buffers_.cached.data());
  }

  void score() {
    read_queries();
    buffers_.cached.resize(static_cast<size_t>(kBlock * call_.depth));
    buffers_.scores.resize(static_cast<size_t>(heads_ * length_));
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
    const int64_t first = (row_ * call_.heads + group_ * heads_) * call_.depth;
    float* output = runs_.place(call_.output, first, buffers_.sums.data());
    if (output != buffers_.sums.data()) std::copy_n(buffers_.sums.data(), elements, output);
    runs_.write(output, call_.output, first, elements);
  }

  const CachedAttention& call_;
  const CpuRuns& runs_;
  const ProductKernels& kernels_ = product_kernels(best_instruction_set());
  Buffers& buffers_;
  int64_t row_, group_;
  int64_t heads_;   ///< Of the group.
  int64_t length_;  ///< Keys that the row sees.
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
