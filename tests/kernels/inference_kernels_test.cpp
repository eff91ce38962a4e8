// The kernels of inference beside plain ATen, and their instruction sets beside one another.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "libmeg/kernels/attention/cached_attention.h"
#include "libmeg/kernels/product/few_rows_product.h"
#include "libmeg/kernels/product/internal/product_kernels.h"

namespace meg::nn {
namespace {

struct TypeCase {
  kernels::FloatType type;
  at::ScalarType scalar_type;
  double tolerance;  // relative to the largest value
};

constexpr TypeCase kTypes[] = {{kernels::FloatType::kFloat32, at::kFloat, 2e-6},
                               {kernels::FloatType::kFloat16, at::kHalf, 1e-3},
                               {kernels::FloatType::kBFloat16, at::kBFloat16, 8e-3}};

at::Tensor normal(at::IntArrayRef sizes, int64_t seed, at::ScalarType type) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return at::randn(sizes, at::kDouble).to(type);
}

void expect_near(const at::Tensor& found, const at::Tensor& wanted, double relative) {
  const double largest = wanted.abs().max().item<double>();
  EXPECT_LT((found.to(at::kDouble) - wanted).abs().max().item<double>(), relative * largest)
      << found.scalar_type() << " " << found.sizes();
}

at::Tensor few_rows(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                    kernels::FloatType type, int64_t cut) {
  const at::Tensor output = at::empty({input.size(0), weight.size(0)}, input.options());
  kernels::FewRowsProduct call;
  call.type = type;
  call.input = input.const_data_ptr();
  call.weight = weight.const_data_ptr();
  call.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
  call.output = output.mutable_data_ptr();
  call.rows = input.size(0);
  call.columns = weight.size(0);
  call.depth = weight.size(1);
  kernels::few_rows_product_cpu(call, 0, cut);
  kernels::few_rows_product_cpu(call, cut, call.columns);
  return output;
}

TEST(InferenceKernelsTest, FewRowsProductAgrees) {
  for (const auto& [type, scalar_type, tolerance] : kTypes) {
    for (const int64_t rows : {1, 2, 3, 4, 7, 16, 33}) {
      for (const int64_t depth : {1, 15, 16, 100, 768}) {
        const at::Tensor input = normal({rows, depth}, 1, scalar_type);
        const at::Tensor weight = normal({131, depth}, 2, scalar_type);
        const at::Tensor bias = normal({131}, 3, scalar_type);
        const at::Tensor wanted =
            at::linear(input.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
        expect_near(few_rows(input, weight, bias, type, 50), wanted, tolerance);
        expect_near(few_rows(input, weight, at::Tensor(), type, 131), wanted - bias, tolerance);
      }
    }
  }
}

TEST(InferenceKernelsTest, ARowsBitsDependOnNeitherRowsNorCuts) {
  for (const auto& [type, scalar_type, tolerance] : kTypes) {
    const at::Tensor input = normal({19, 203}, 1, scalar_type);
    const at::Tensor weight = normal({131, 203}, 2, scalar_type);
    const at::Tensor bias = normal({131}, 3, scalar_type);
    const at::Tensor all = few_rows(input, weight, bias, type, 77);
    for (int64_t row = 0; row < 19; ++row) {
      const at::Tensor one = few_rows(input.narrow(0, row, 1), weight, bias, type, row);
      EXPECT_TRUE(at::equal(one[0], all[row]));
    }
  }
}

TEST(InferenceKernelsTest, InstructionSetsAgree) {
  constexpr int64_t kRows = 5, kColumns = 23, kDepth = 117;
  const at::Tensor input = normal({kRows, kDepth}, 1, at::kFloat);
  const at::Tensor weight = normal({kColumns, kDepth}, 2, at::kFloat);
  const at::Tensor wanted = at::linear(input.to(at::kDouble), weight.to(at::kDouble));
  for (const auto set :
       {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > best_instruction_set()) continue;
    const at::Tensor output = at::empty({kRows, kColumns});
    kernels::ProductCall call;
    call.input = input.const_data_ptr<float>();
    call.weight = weight.const_data_ptr<float>();
    call.output = output.mutable_data_ptr<float>();
    call.rows = kRows;
    call.columns = call.output_stride = kColumns;
    call.depth = call.input_stride = kDepth;
    kernels::product_kernels(set).product(call);
    expect_near(output, wanted, 1e-6);
    const at::Tensor sums = at::ones({kDepth});
    kernels::product_kernels(set).weighted_sum(output.const_data_ptr<float>(),
                                               weight.const_data_ptr<float>(), kColumns, kDepth,
                                               sums.mutable_data_ptr<float>());
    expect_near(sums, at::matmul(output[0].to(at::kDouble), weight.to(at::kDouble)) + 1, 1e-6);
  }
}

TEST(InferenceKernelsTest, CachedAttentionAgrees) {
  constexpr int64_t kSlots = 5, kGroups = 3, kCapacity = 150, kDepth = 20;
  const std::vector<int64_t> slots = {4, 0, 2, 1}, lengths = {150, 1, 0, 67};
  for (const auto& [type, scalar_type, tolerance] : kTypes) {
    for (const int64_t heads : {kGroups, 2 * kGroups, 5 * kGroups}) {
      // Queries and keys lie apart, as in the array that a layer's matrix makes of all three.
      const at::Tensor query = normal({4, heads, 3, kDepth}, 1, scalar_type).select(2, 0);
      const at::Tensor new_keys = normal({4, kGroups, 2, kDepth}, 4, scalar_type).select(2, 1);
      const at::Tensor new_values = normal({4, kGroups, kDepth}, 5, scalar_type);
      const at::Tensor keys = normal({kSlots, kGroups, kCapacity, kDepth}, 2, scalar_type);
      const at::Tensor values = normal({kSlots, kGroups, kCapacity, kDepth}, 3, scalar_type);
      const at::Tensor output = at::full({4, heads, kDepth}, 7, query.options());
      const auto rows_of = [](const at::Tensor& array) {
        return kernels::HeadRows{array.const_data_ptr(), array.stride(0), array.stride(1)};
      };
      kernels::CachedAttention call;
      call.type = type;
      call.queries = rows_of(query);
      call.new_keys = rows_of(new_keys);
      call.new_values = rows_of(new_values);
      call.keys = keys.mutable_data_ptr();
      call.values = values.mutable_data_ptr();
      call.slots = slots.data();
      call.lengths = lengths.data();
      call.output = output.mutable_data_ptr();
      call.rows = 4;
      call.heads = heads;
      call.groups = kGroups;
      call.capacity = kCapacity;
      call.depth = kDepth;
      call.scale = 0.3f;
      kernels::cached_attention_cpu(call, 0, 7);
      kernels::cached_attention_cpu(call, 7, 4 * kGroups);
      for (int64_t row = 0; row < 4; ++row) {
        const auto at_row = static_cast<size_t>(row);
        if (lengths[at_row] == 0) {
          EXPECT_TRUE(at::equal(output[row], at::full_like(output[row], 7)));
          continue;
        }
        EXPECT_TRUE(at::equal(keys[slots[at_row]].select(1, lengths[at_row] - 1), new_keys[row]));
        EXPECT_TRUE(
            at::equal(values[slots[at_row]].select(1, lengths[at_row] - 1), new_values[row]));
        const auto of_heads = [&](const at::Tensor& cached) {
          return cached[slots[at_row]]
              .narrow(1, 0, lengths[at_row])
              .repeat_interleave(heads / kGroups, 0)
              .to(at::kDouble);
        };
        const at::Tensor scores =
            at::bmm(of_heads(keys), query[row].to(at::kDouble).unsqueeze(2)) * 0.3;
        const at::Tensor wanted =
            at::bmm(at::softmax(scores, 1).transpose(1, 2), of_heads(values)).squeeze(1);
        expect_near(output[row], wanted, tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace meg::nn
