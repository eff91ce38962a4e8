#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "libmeg/kernels/dropout_add_norm.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"

namespace meg::kernels {
namespace {

using test::DeviceArray;
using test::FloatArray;
using test::kFloatTypes;
using test::normal_values;

constexpr CudaAccess kAccesses[] = {CudaAccess::kScalar, CudaAccess::kVectorized};

struct Case {
  DropoutAddNorm shape;
  bool has_branch = true;
  bool has_norm = true;
  bool adds_to_gradients = false;

  std::string name() const {
    return std::to_string(shape.rows) + " x " + std::to_string(shape.columns) + " " +
           test::name_of(shape.type) + ", residual " + test::name_of(shape.residual_type) +
           (shape.is_rms_norm ? ", RMSNorm" : "") + (shape.is_1p ? ", 1p" : "") +
           (has_branch ? "" : ", no branch") + (has_norm ? "" : ", no norm") +
           (adds_to_gradients ? ", adds" : "");
  }
};

Case case_of(FloatType type, int64_t rows, int64_t columns) {
  Case made;
  made.shape.type = made.shape.residual_type = type;
  made.shape.epsilon = 1e-5F;
  made.shape.dropout = {.kept = 0.8, .seed = 77, .offset = 12};
  made.shape.rows = rows;
  made.shape.columns = columns;
  return made;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const FloatType type : kFloatTypes) {
    for (const int64_t columns : {1, 3, 17, 64, 129, 1024, 2056, 8208}) {
      all.push_back(case_of(type, columns > 1024 ? 3 : 21, columns));
    }
    all.push_back(case_of(type, 513, 40));  // many rows
    all.push_back(case_of(type, 513, 2056));
    Case made = case_of(type, 37, 72);
    made.shape.residual_type = FloatType::kFloat32;
    all.push_back(made);
    made.shape.is_1p = made.adds_to_gradients = true;
    all.push_back(made);
    made.shape.residual_type = type;
    made.shape.is_rms_norm = true;
    all.push_back(made);
    made.shape.dropout.kept = 1;
    made.has_branch = false;
    all.push_back(made);
    made = case_of(type, 9, 24);
    made.has_norm = false;
    all.push_back(made);
    all.push_back(case_of(type, 3, 0));
  }
  return all;
}

/// The arrays of a case, on the host; gradients and results hold their expectations at the end.
struct Arrays {
  explicit Arrays(const Case& made)
      : branch(made.shape.type, values(made, 1)),
        residual(made.shape.residual_type, values(made, 2)),
        weight(made.shape.type, normal_values(made.shape.columns, 1, 3)),
        bias(made.shape.type, normal_values(made.shape.columns, 1, 4)),
        sum(residual),
        normalized(branch),
        grad_normalized(made.shape.type, values(made, 5)),
        grad_sum(made.shape.residual_type, values(made, 6)),
        grad_residual(residual),
        grad_branch(branch),
        grad_weight(made.adds_to_gradients ? FloatType::kFloat32 : made.shape.type,
                    normal_values(made.shape.columns, 1, 7)),
        grad_bias(grad_weight),
        means(static_cast<size_t>(made.shape.rows)),
        rstds(means) {}

  static std::vector<float> values(const Case& made, unsigned seed) {
    return normal_values(made.shape.rows * made.shape.columns, 2, seed);
  }

  FloatArray branch, residual, weight, bias, sum, normalized;
  FloatArray grad_normalized, grad_sum, grad_residual, grad_branch, grad_weight, grad_bias;
  std::vector<float> means, rstds;
};

/// `at(array)`: where an array of Arrays is.
template <class At>
DropoutAddNormForward forward_call(const Case& made, At at) {
  DropoutAddNormForward call{made.shape};
  if (made.has_branch) call.branch = at(&Arrays::branch);
  if (made.has_norm) call.weight = at(&Arrays::weight);
  call.residual = at(&Arrays::residual);
  call.bias = at(&Arrays::bias);
  call.sum = at(&Arrays::sum);
  call.normalized = at(&Arrays::normalized);
  return call;
}

template <class At>
DropoutAddNormBackward backward_call(const Case& made, At at) {
  DropoutAddNormBackward call{made.shape};
  if (made.has_norm) call.grad_normalized = at(&Arrays::grad_normalized);
  if (made.has_branch) call.grad_sum = at(&Arrays::grad_sum);
  call.sum = at(made.has_branch ? &Arrays::sum : &Arrays::residual);
  call.weight = at(&Arrays::weight);
  call.grad_residual = at(&Arrays::grad_residual);
  if (made.has_branch) call.grad_branch = at(&Arrays::grad_branch);
  call.grad_weight = at(&Arrays::grad_weight);
  call.grad_bias = at(&Arrays::grad_bias);
  call.adds_to_gradients = made.adds_to_gradients;
  return call;
}

/// Both passes on the CPU.
Arrays on_cpu(const Case& made) {
  Arrays arrays(made);
  const auto at = [&](FloatArray Arrays::*array) { return (arrays.*array).data(); };
  auto forward = forward_call(made, at);
  forward.means = arrays.means.data();
  forward.rstds = arrays.rstds.data();
  dropout_add_norm_forward_cpu(forward, 0, made.shape.rows);
  auto backward = backward_call(made, at);
  backward.means = arrays.means.data();
  backward.rstds = arrays.rstds.data();
  dropout_add_norm_backward_cpu(backward);
  return arrays;
}

/// Both passes on the GPU, each launch with success.
Arrays on_gpu(const Case& made, CudaAccess access) {
  Arrays arrays(made);
  std::vector<std::pair<FloatArray Arrays::*, DeviceArray>> there;
  for (FloatArray Arrays::*array :
       {&Arrays::branch, &Arrays::residual, &Arrays::weight, &Arrays::bias, &Arrays::sum,
        &Arrays::normalized, &Arrays::grad_normalized, &Arrays::grad_sum, &Arrays::grad_residual,
        &Arrays::grad_branch, &Arrays::grad_weight, &Arrays::grad_bias}) {
    there.emplace_back(array, DeviceArray(arrays.*array));
  }
  const auto at = [&](FloatArray Arrays::*array) {
    return std::ranges::find(there, array, [](const auto& pair) { return pair.first; })
        ->second.get();
  };
  const DeviceArray means(arrays.means), rstds(arrays.rstds);
  auto forward = forward_call(made, at);
  forward.means = means.get<float>();
  forward.rstds = rstds.get<float>();
  EXPECT_EQ(dropout_add_norm_forward_cuda(forward, nullptr, access), 0);
  auto backward = backward_call(made, at);
  backward.means = means.get<float>();
  backward.rstds = rstds.get<float>();
  const auto scratch_size =
      static_cast<size_t>(dropout_add_norm_scratch(made.shape.rows, made.shape.columns));
  const DeviceArray scratch(std::vector<float>(scratch_size, NAN));
  EXPECT_EQ(dropout_add_norm_backward_cuda(backward, scratch.get<float>(), nullptr, access), 0);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  for (const auto& [array, values] : there) {
    arrays.*array = values.floats((arrays.*array).type());
  }
  return arrays;
}

/// Within `roundings` of the array's own and some of fp32, relative to the largest of the values
/// or 1.
void expect_near(const FloatArray& found, const FloatArray& expected, double roundings,
                 const std::string& what) {
  const std::vector<float> a = found.floats(), b = expected.floats();
  float largest = 1;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  const double bound = largest * (roundings * test::rounding_error(found.type()) + 2e-5);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << what << " " << i;
}

TEST(DropoutAddNormGpuTest, BothPassesMatchTheCpus) {
  MEG_REQUIRE_GPU();
  for (const Case& made : cases()) {
    const Arrays expected = on_cpu(made);
    for (const CudaAccess access : kAccesses) {
      SCOPED_TRACE(made.name());
      const Arrays found = on_gpu(made, access);
      // Nothing is computed before it: the same to the bit.
      ASSERT_EQ(test::bits_of(found.sum.floats()), test::bits_of(expected.sum.floats()));
      expect_near(found.normalized, expected.normalized, 2, "normalized");
      expect_near(found.grad_residual, expected.grad_residual, 2, "grad_residual");
      expect_near(found.grad_branch, expected.grad_branch, 2, "grad_branch");
      expect_near(found.grad_weight, expected.grad_weight, 2, "grad_weight");
      expect_near(found.grad_bias, expected.grad_bias, 2, "grad_bias");
    }
  }
}

/// What a model generates is what it scores.
TEST(DropoutAddNormGpuTest, BitsOfARowDoNotDependOnTheNumberOfRows) {
  MEG_REQUIRE_GPU();
  for (const FloatType type : {FloatType::kFloat32, FloatType::kBFloat16}) {
    for (const int64_t columns : {40, 264, 300, 1032, 2056}) {
      Case many = case_of(type, 513, columns), few = case_of(type, 3, columns);
      many.shape.is_rms_norm = few.shape.is_rms_norm = columns == 264;
      for (const CudaAccess access : kAccesses) {
        SCOPED_TRACE(few.name());
        const Arrays of_many = on_gpu(many, access), of_few = on_gpu(few, access);
        for (FloatArray Arrays::*array :
             {&Arrays::sum, &Arrays::normalized, &Arrays::grad_residual, &Arrays::grad_branch}) {
          std::vector<float> rows = (of_many.*array).floats();
          rows.resize(static_cast<size_t>(few.shape.rows * columns));
          ASSERT_EQ(test::bits_of((of_few.*array).floats()), test::bits_of(rows));
        }
      }
    }
  }
}

TEST(DropoutAddNormGpuTest, NoRowsHaveZeroGradients) {
  MEG_REQUIRE_GPU();
  const Arrays found = on_gpu(case_of(FloatType::kFloat16, 0, 40), CudaAccess::kVectorized);
  EXPECT_EQ(found.grad_weight.floats(), std::vector<float>(40));
  EXPECT_EQ(found.grad_bias.floats(), std::vector<float>(40));
}

TEST(DropoutAddNormGpuTest, TwoRunsGiveTheSameBits) {
  MEG_REQUIRE_GPU();
  const Case made = case_of(FloatType::kBFloat16, 300, 264);
  const Arrays first = on_gpu(made, CudaAccess::kVectorized),
               second = on_gpu(made, CudaAccess::kVectorized);
  EXPECT_EQ(test::bits_of(first.grad_weight.floats()), test::bits_of(second.grad_weight.floats()));
  EXPECT_EQ(test::bits_of(first.grad_branch.floats()), test::bits_of(second.grad_branch.floats()));
}

}  // namespace
}  // namespace meg::kernels
