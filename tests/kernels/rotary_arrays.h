#pragma once

#include <algorithm>
#include <vector>

#include "libmeg/kernels/attention/rotary_heads.h"
#include "tests/kernels/float_array.h"

namespace meg::test {

/// Attention heads as the product with linear_qkv's weight gives them, [rows][tokens][groups]
/// [queries + 2][channels], and apart.
struct HeadShape {
  int64_t rows, tokens, groups, queries, channels, turned;
  bool interleaved;

  int64_t count(int64_t heads) const { return rows * tokens * groups * heads * channels; }
};

inline constexpr HeadShape kHeadShapes[] = {
    {1, 1, 1, 1, 2, 2, false},    {2, 3, 2, 1, 64, 64, false}, {1, 5, 3, 4, 32, 16, true},
    {2, 2, 1, 3, 10, 6, false},   {2, 2, 2, 2, 6, 4, true},    {1, 3, 4, 1, 48, 0, false},
    {3, 2, 2, 2, 128, 64, false}, {1, 2, 2, 2, 7, 4, false},   {2, 1, 1, 2, 5, 2, true},
    {1, 2, 40, 1, 16, 16, false}, {0, 4, 2, 1, 8, 8, false}};

inline kernels::HeadStrides strides_of(const HeadShape& shape, int64_t heads) {
  const int64_t group = heads * shape.channels;
  return {shape.tokens * shape.groups * group, shape.groups * group, group, shape.channels};
}

/// Copies between the mixed array and queries, keys and values, without their pointers.
inline kernels::RotaryHeads rotary_call(const HeadShape& shape, kernels::FloatType type) {
  kernels::RotaryHeads call;
  call.type = type;
  call.rows = shape.rows;
  call.tokens = shape.tokens;
  call.groups = shape.groups;
  call.channels = shape.channels;
  call.turned = shape.turned;
  call.interleaved = shape.interleaved;
  for (int i = 0; i < 3; ++i) {
    call.copies[i].heads = i == 0 ? shape.queries : 1;
    call.copies[i].is_turned = i < 2;
  }
  return call;
}

/// Cosines and sines of any angles, the same for both channels of a pair.
struct RotaryTables {
  explicit RotaryTables(const HeadShape& shape) {
    const std::vector<float> angles = normal_values(shape.tokens * shape.turned, 3, 9);
    for (int64_t i = 0; i < shape.tokens * shape.turned; ++i) {
      const int64_t half = std::max<int64_t>(shape.turned / 2, 1);
      const int64_t within = i % shape.turned;
      const int64_t pair = shape.interleaved ? within - within % 2 : within % half;
      const float angle = angles[static_cast<size_t>(i - within + pair)];
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }

  std::vector<float> cosine, sine;
};

}  // namespace meg::test
