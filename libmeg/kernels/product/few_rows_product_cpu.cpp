#include <algorithm>
#include <vector>

#include "libmeg/kernels/internal/cpu_runs.h"
#include "libmeg/kernels/product/few_rows_product.h"
#include "libmeg/kernels/product/internal/product_kernels.h"

namespace meg::kernels {
namespace {

/// Columns that are multiplied, and rounded, at a time: multiples of all tiles' columns; of 16-bit
/// weights so few that they are still in the nearest caches when they have been widened.
constexpr int64_t kBlockColumns = 48;
constexpr int64_t kNarrowBlockColumns = 12;

/// Adds the bias to a block of products and brings it home.
void finish(const FewRowsProduct& call, const CpuRuns& runs, int64_t begin, int64_t count,
            const float* block) {
  float bias_room[kBlockColumns];
  float buffer[kBlockColumns];
  const float* bias =
      call.bias == nullptr ? nullptr : runs.read(call.bias, begin, count, bias_room);
  for (int64_t row = 0; row < call.rows; ++row) {
    const float* sums = block + row * kBlockColumns;
    const int64_t at = row * call.columns + begin;
    float* output = runs.place(call.output, at, buffer);
    for (int64_t i = 0; i < count; ++i) output[i] = sums[i] + (bias == nullptr ? 0.0f : bias[i]);
    runs.write(output, call.output, at, count);
  }
}

}  // namespace

void few_rows_product_cpu(const FewRowsProduct& call, int64_t column_begin, int64_t column_end) {
  const CpuRuns runs(call.type);
  const ProductKernels& kernels = product_kernels(best_instruction_set());
  const bool is_wide = call.type == FloatType::kFloat32;
  std::vector<float> input_room(is_wide ? 0 : static_cast<size_t>(call.rows * call.depth));
  std::vector<float> weight_room(is_wide ? 0 : static_cast<size_t>(kBlockColumns * call.depth));
  std::vector<float> block(static_cast<size_t>(call.rows * kBlockColumns));
  ProductCall product;
  product.input = runs.read(call.input, 0, call.rows * call.depth, input_room.data());
  product.output = block.data();
  product.rows = call.rows;
  product.depth = product.input_stride = call.depth;
  product.output_stride = kBlockColumns;
  const int64_t step = is_wide ? kBlockColumns : kNarrowBlockColumns;
  for (int64_t begin = column_begin; begin < column_end; begin += step) {
    product.columns = std::min(step, column_end - begin);
    product.weight = runs.read(call.weight, begin * call.depth, product.columns * call.depth,
                               weight_room.data());
    kernels.product(product);
    finish(call, runs, begin, product.columns, block.data());
  }
}

}  // namespace meg::kernels
