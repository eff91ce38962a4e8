#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "libmeg/kernels/embedding_backward.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"

namespace meg::kernels {
namespace {

using test::DeviceArray;
using test::FloatArray;
using test::kFloatTypes;
using test::normal_values;

constexpr int64_t kTableRows = 37;

struct Case {
  FloatType type;
  bool adds;
  int64_t count;
  int64_t columns;
  bool has_ids;
  int64_t period = count / 3;  ///< Without ids.
};

/// Some ids often, some never.
std::vector<int64_t> ids_of(const Case& made) {
  std::mt19937 engine(3);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < made.count; ++i) {
    ids.push_back(static_cast<int64_t>(engine() % 3 == 0 ? 5 : engine() % kTableRows));
  }
  return ids;
}

struct Arrays {
  explicit Arrays(const Case& made)
      : ids(ids_of(made)),
        gradients(made.type, normal_values(made.count * made.columns, 1, 1)),
        grad_weight(made.adds ? FloatType::kFloat32 : made.type,
                    normal_values(kTableRows * made.columns, 1, 2)) {}

  EmbeddingBackward call(const Case& made, const int64_t* with_ids, const void* with_gradients,
                         void* result) const {
    return {.type = made.type,
            .ids = made.has_ids ? with_ids : nullptr,
            .period = made.has_ids ? 0 : made.period,
            .gradients = with_gradients,
            .grad_weight = result,
            .adds = made.adds,
            .count = made.count,
            .columns = made.columns};
  }

  std::vector<int64_t> ids;
  FloatArray gradients, grad_weight;
};

FloatArray on_cpu(const Case& made) {
  Arrays arrays(made);
  embedding_backward_cpu(
      arrays.call(made, arrays.ids.data(), arrays.gradients.data(), arrays.grad_weight.data()));
  return arrays.grad_weight;
}

FloatArray on_gpu(const Case& made, CudaAccess access) {
  const Arrays arrays(made);
  const DeviceArray ids(arrays.ids), gradients(arrays.gradients), result(arrays.grad_weight);
  const auto call = arrays.call(made, ids.get<int64_t>(), gradients.get(), result.get());
  const auto numbers = static_cast<size_t>(embedding_backward_scratch(call));
  const DeviceArray scratch(std::vector<int64_t>(numbers, -1));
  EXPECT_EQ(embedding_backward_cuda(call, scratch.get<int64_t>(), nullptr, access), 0);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  return result.floats(arrays.grad_weight.type());
}

void expect_bits_of_cpu(const Case& made) {
  const FloatArray expected = on_cpu(made);
  for (const CudaAccess access : {CudaAccess::kScalar, CudaAccess::kVectorized}) {
    ASSERT_EQ(test::bits_of(on_gpu(made, access).floats()), test::bits_of(expected.floats()))
        << test::name_of(made.type) << (made.adds ? " adds " : " ") << made.count << " x "
        << made.columns << (made.has_ids ? "" : ", no ids");
  }
}

TEST(EmbeddingBackwardGpuTest, SumsAreTheCpusToTheBit) {
  MEG_REQUIRE_GPU();
  for (const FloatType type : kFloatTypes) {
    for (const bool adds : {false, true}) {
      for (const bool has_ids : {false, true}) {
        for (const auto& [count, columns] : {std::pair{3, 1},
                                             {3, 17},
                                             {90, 40},
                                             {111, 129},
                                             {600, 8},
                                             {1500, 24},
                                             {30, 8200},
                                             {0, 8}}) {
          if (!has_ids && count / 3 > kTableRows) continue;
          expect_bits_of_cpu({type, adds, count, columns, has_ids});
        }
      }
    }
  }
}

/// Sorted by runs that are merged once, and twice.
TEST(EmbeddingBackwardGpuTest, ManyLookupsAreSorted) {
  MEG_REQUIRE_GPU();
  expect_bits_of_cpu({FloatType::kBFloat16, true, 2049, 8, true});
  expect_bits_of_cpu({FloatType::kFloat32, false, 5000, 4, true});
  expect_bits_of_cpu({FloatType::kFloat32, true, 16390, 2, true});
}

TEST(EmbeddingBackwardGpuTest, PositionsOfManySequencesAreSummedByParts) {
  MEG_REQUIRE_GPU();
  expect_bits_of_cpu({FloatType::kBFloat16, true, 1200, 40, false, /*period=*/2});
}

/// Blocks share an id that is looked up often, so that the order of its sum is that of parts.
TEST(EmbeddingBackwardGpuTest, AFrequentIdIsTheSumOfItsParts) {
  MEG_REQUIRE_GPU();
  for (const int64_t count : {255, 256, 257, 512, 1000}) {
    const std::vector<int64_t> ids(static_cast<size_t>(count), 3);
    const std::vector<float> values = normal_values(count, 1, 8);
    float expected = 0;
    for (int64_t begin = 0; begin < count; begin += kLookupsOfPart) {
      float part = 0;
      for (int64_t i = begin; i < std::min(begin + kLookupsOfPart, count); ++i) {
        part += values[static_cast<size_t>(i)];
      }
      expected += part;
    }
    const DeviceArray on_device(ids), gradients(values), result(std::vector<float>(5));
    const EmbeddingBackward call = {.ids = on_device.get<int64_t>(),
                                    .gradients = gradients.get(),
                                    .grad_weight = result.get(),
                                    .count = count,
                                    .columns = 1};
    const auto numbers = static_cast<size_t>(embedding_backward_scratch(call));
    const DeviceArray scratch(std::vector<int64_t>(numbers, -1));
    EXPECT_EQ(embedding_backward_cuda(call, scratch.get<int64_t>(), nullptr), 0);
    EXPECT_EQ(result.values<float>(), (std::vector<float>{0, 0, 0, expected, 0})) << count;
  }
}

}  // namespace
}  // namespace meg::kernels
