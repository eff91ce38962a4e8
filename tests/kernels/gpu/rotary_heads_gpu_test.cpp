#include <gtest/gtest.h>

#include "libmeg/kernels/attention/rotary_heads.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"
#include "tests/kernels/rotary_arrays.h"

namespace meg::nn {
namespace {

using kernels::FloatType;
using test::DeviceArray;
using test::FloatArray;
using test::HeadShape;

/// Lets the call take all heads out of the mixed array into one array after another, or back.
void point(kernels::RotaryHeads& call, const HeadShape& shape, bool apart, void* mixed,
           void* parts) {
  const int64_t size = kernels::float_type_size(call.type);
  int64_t head = 0, place = 0;
  for (kernels::HeadCopy& copy : call.copies) {
    char* const in_mixed = static_cast<char*>(mixed) + head * shape.channels * size;
    char* const in_parts = static_cast<char*>(parts) + place * size;
    head += copy.heads;
    place += shape.count(copy.heads);
    const auto of_mixed = test::strides_of(shape, shape.queries + 2);
    const auto of_part = test::strides_of(shape, copy.heads);
    copy.from = apart ? in_mixed : in_parts;
    copy.from_strides = apart ? of_mixed : of_part;
    copy.to = apart ? in_parts : in_mixed;
    copy.to_strides = apart ? of_part : of_mixed;
  }
  call.turns_back = !apart;
}

TEST(RotaryHeadsGpuTest, MatchTheCpu) {
  MEG_REQUIRE_GPU();
  for (const auto access : {kernels::CudaAccess::kScalar, kernels::CudaAccess::kVectorized}) {
    for (const FloatType type : test::kFloatTypes) {
      for (const HeadShape& shape : test::kHeadShapes) {
        for (const bool apart : {true, false}) {
          const test::RotaryTables tables(shape);
          FloatArray cosine(type, tables.cosine), sine(type, tables.sine);
          FloatArray mixed(type, test::normal_values(shape.count(shape.queries + 2), 1, 4));
          FloatArray parts(type, test::normal_values(shape.count(shape.queries + 2), 1, 5));
          const DeviceArray device_mixed(mixed), device_parts(parts), device_cosine(cosine),
              device_sine(sine);
          kernels::RotaryHeads call = test::rotary_call(shape, type);
          point(call, shape, apart, mixed.data(), parts.data());
          call.cosine = cosine.data();
          call.sine = sine.data();
          kernels::rotary_heads_cpu(call, 0, shape.rows * shape.tokens);
          point(call, shape, apart, device_mixed.get(), device_parts.get());
          call.cosine = device_cosine.get();
          call.sine = device_sine.get();
          ASSERT_EQ(kernels::rotary_heads_cuda(call, nullptr, access), 0);
          ASSERT_EQ(cudaGetLastError(), cudaSuccess);
          const auto expected = (apart ? parts : mixed).floats();
          const auto found = (apart ? device_parts : device_mixed).floats(type).floats();
          ASSERT_EQ(found.size(), expected.size());
          for (size_t i = 0; i < found.size(); ++i) {
            // A product may be fused with the sum, and land on the other side of a rounding.
            const double bound = 1e-6 + 2.1 * test::rounding_error(type) * std::abs(expected[i]);
            EXPECT_NEAR(found[i], expected[i], bound) << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace meg::nn
