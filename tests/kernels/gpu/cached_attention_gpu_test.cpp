#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "libmeg/kernels/attention/cached_attention.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"

namespace meg::kernels {
namespace {

using test::DeviceArray;
using test::FloatArray;
using test::kFloatTypes;
using test::normal_values;

constexpr int64_t kSlots = 5;

struct Case {
  FloatType type;
  int64_t heads, groups, depth, capacity;
};

/// What a layer's matrix makes of each row: for each group its queries, its key and its value.
struct Arrays {
  Arrays(const Case& made, const std::vector<int64_t>& of_slots,
         const std::vector<int64_t>& of_lengths)
      : slots(of_slots),
        lengths(of_lengths),
        mixed(made.type, normal_values(rows() * row_stride(made), 1, 1)),
        keys(made.type, normal_values(kSlots * made.groups * made.capacity * made.depth, 1, 2)),
        values(made.type, normal_values(kSlots * made.groups * made.capacity * made.depth, 1, 3)),
        output(made.type,
               std::vector<float>(static_cast<size_t>(rows() * made.heads * made.depth), 7)) {}

  int64_t rows() const { return static_cast<int64_t>(slots.size()); }

  static int64_t row_stride(const Case& made) {
    return (made.heads + 2 * made.groups) * made.depth;
  }

  /// Makes a call on arrays that lie elsewhere. Where a group has one query, its query, key and
  /// value follow one another; else queries lie in the rows' first part, so that their stride is
  /// one.
  CachedAttention call(const Case& made, const void* with_mixed, void* with_keys, void* with_values,
                       const int64_t* with_slots, const int64_t* with_lengths,
                       void* with_output) const {
    const auto part = [&](int64_t first, int64_t head_stride) {
      return HeadRows{
          static_cast<const char*>(with_mixed) + first * made.depth * float_type_size(made.type),
          row_stride(made), head_stride * made.depth};
    };
    const bool is_grouped = made.heads != made.groups;
    CachedAttention call;
    call.type = made.type;
    call.queries = is_grouped ? part(0, 1) : part(0, 3);
    call.new_keys = is_grouped ? part(made.heads, 2) : part(1, 3);
    call.new_values = is_grouped ? part(made.heads + 1, 2) : part(2, 3);
    call.keys = with_keys;
    call.values = with_values;
    call.slots = with_slots;
    call.lengths = with_lengths;
    call.output = with_output;
    call.rows = rows();
    call.heads = made.heads;
    call.groups = made.groups;
    call.capacity = made.capacity;
    call.depth = made.depth;
    call.scale = 0.3F;
    return call;
  }

  std::vector<int64_t> slots, lengths;
  FloatArray mixed, keys, values, output;
};

void run_on_cpu(const Case& made, Arrays& arrays) {
  const auto call = arrays.call(made, arrays.mixed.data(), arrays.keys.data(), arrays.values.data(),
                                arrays.slots.data(), arrays.lengths.data(), arrays.output.data());
  cached_attention_cpu(call, 0, call.rows * call.groups);
}

void run_on_gpu(const Case& made, Arrays& arrays, CudaAccess access) {
  const DeviceArray mixed(arrays.mixed), keys(arrays.keys), values(arrays.values),
      slots(arrays.slots), lengths(arrays.lengths), output(arrays.output);
  const auto call = arrays.call(made, mixed.get(), keys.get(), values.get(), slots.get<int64_t>(),
                                lengths.get<int64_t>(), output.get());
  const int64_t longest = std::ranges::max(arrays.lengths);
  const DeviceArray scratch(
      std::vector<float>(static_cast<size_t>(cached_attention_scratch(call, longest)), NAN));
  ASSERT_EQ(cached_attention_cuda(call, longest, scratch.get<float>(), nullptr, access), 0);
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  arrays.keys = keys.floats(made.type);
  arrays.values = values.floats(made.type);
  arrays.output = output.floats(made.type);
}

void expect_same_on_gpu(const Case& made, const std::vector<int64_t>& lengths, double roundings) {
  std::vector<int64_t> slots = {4, 0, 2, 1};
  slots.resize(lengths.size());
  Arrays expected(made, slots, lengths);
  run_on_cpu(made, expected);
  for (const CudaAccess access : {CudaAccess::kScalar, CudaAccess::kVectorized}) {
    Arrays found(made, slots, lengths);
    run_on_gpu(made, found, access);
    EXPECT_EQ(test::bits_of(found.keys.floats()), test::bits_of(expected.keys.floats()));
    EXPECT_EQ(test::bits_of(found.values.floats()), test::bits_of(expected.values.floats()));
    const std::vector<float> a = found.output.floats(), b = expected.output.floats();
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 4 * (roundings * test::rounding_error(made.type) + 2e-6))
          << test::name_of(made.type) << " " << made.heads << " heads of " << made.depth << ", "
          << i;
    }
  }
}

TEST(CachedAttentionGpuTest, MatchesTheCpus) {
  MEG_REQUIRE_GPU();
  for (const FloatType type : kFloatTypes) {
    for (const auto& [heads, groups, depth] :
         {std::array<int64_t, 3>{3, 3, 64}, {4, 2, 20}, {6, 1, 128}, {2, 2, 1}, {2, 2, 96}}) {
      expect_same_on_gpu({type, heads, groups, depth, 90}, {90, 1, 0, 67}, 2);
    }
    // These lie in one part, fill exactly one and take three.
    expect_same_on_gpu({type, 2, 1, 16, 1100}, {513, 30, 1100, 512}, 2);
  }
}

TEST(CachedAttentionGpuTest, TakesTheDeepestHead) {
  MEG_REQUIRE_GPU();
  expect_same_on_gpu({FloatType::kBFloat16, 1, 1, kMaxCachedDepth, 40}, {40}, 2);
  CachedAttention call;
  call.depth = kMaxCachedDepth + 1;
  EXPECT_NE(cached_attention_cuda(call, 1, nullptr, nullptr), 0);
}

TEST(CachedAttentionGpuTest, ARowsResultIsItsOwn) {
  MEG_REQUIRE_GPU();
  const Case made = {FloatType::kBFloat16, 2, 2, 64, 1000};
  Arrays alone(made, {4}, {300}), together(made, {4, 1}, {300, 1000});
  run_on_gpu(made, alone, CudaAccess::kVectorized);
  run_on_gpu(made, together, CudaAccess::kVectorized);
  std::vector<float> first = together.output.floats();
  first.resize(static_cast<size_t>(made.heads * made.depth));
  EXPECT_EQ(test::bits_of(first), test::bits_of(alone.output.floats()));
}

}  // namespace
}  // namespace meg::kernels
