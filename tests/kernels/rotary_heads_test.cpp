#include "libmeg/kernels/attention/rotary_heads.h"

#include <gtest/gtest.h>

#include "tests/kernels/rotary_arrays.h"

namespace meg::kernels {
namespace {

using test::FloatArray;
using test::HeadShape;

struct Arrays {
  FloatArray mixed, cosine, sine, parts[3];

  Arrays(const HeadShape& shape, FloatType type, const test::RotaryTables& tables)
      : mixed(type, test::normal_values(shape.count(shape.queries + 2), 1, 4)),
        cosine(type, tables.cosine),
        sine(type, tables.sine),
        parts{{type, std::vector<float>(static_cast<size_t>(shape.count(shape.queries)))},
              {type, std::vector<float>(static_cast<size_t>(shape.count(1)))},
              {type, std::vector<float>(static_cast<size_t>(shape.count(1)))}} {}

  RotaryHeads call(const HeadShape& shape, bool apart) {
    RotaryHeads made = test::rotary_call(shape, mixed.type());
    made.cosine = cosine.data();
    made.sine = sine.data();
    made.turns_back = !apart;
    int64_t head = 0;
    for (int i = 0; i < 3; ++i) {
      HeadCopy& copy = made.copies[i];
      const HeadStrides in_mixed = test::strides_of(shape, shape.queries + 2);
      const HeadStrides in_part = test::strides_of(shape, copy.heads);
      char* const place =
          static_cast<char*>(mixed.data()) + head * shape.channels * float_type_size(mixed.type());
      head += copy.heads;
      copy.from = apart ? place : parts[i].data();
      copy.from_strides = apart ? in_mixed : in_part;
      copy.to = apart ? parts[i].data() : place;
      copy.to_strides = apart ? in_part : in_mixed;
    }
    return made;
  }
};

/// What channel `i` of a head becomes, and how large the terms of it are together.
std::pair<double, double> turned(const HeadShape& shape, const std::vector<float>& head,
                                 const std::vector<float>& cosine, const std::vector<float>& sine,
                                 int64_t token, int64_t i) {
  if (i >= shape.turned) return {head[static_cast<size_t>(i)], 0};
  const int64_t half = shape.turned / 2;
  const bool is_first = shape.interleaved ? i % 2 == 0 : i < half;
  const int64_t distance = shape.interleaved ? 1 : half;
  const double other = head[static_cast<size_t>(is_first ? i + distance : i - distance)];
  const auto place = static_cast<size_t>(token * shape.turned + i);
  const double one = double{head[static_cast<size_t>(i)]} * cosine[place];
  const double two = (is_first ? -other : other) * sine[place];
  return {one + two, std::abs(one) + std::abs(two)};
}

TEST(RotaryHeadsTest, IsThePlainFormula) {
  for (const FloatType type : test::kFloatTypes) {
    for (const HeadShape& shape : test::kHeadShapes) {
      Arrays arrays(shape, type, test::RotaryTables(shape));
      const int64_t tokens = shape.rows * shape.tokens;
      rotary_heads_cpu(arrays.call(shape, /*apart=*/true), 0, tokens / 2);
      rotary_heads_cpu(arrays.call(shape, /*apart=*/true), tokens / 2, tokens);
      const auto mixed = arrays.mixed.floats();
      const auto cosine = arrays.cosine.floats(), sine = arrays.sine.floats();
      int64_t checked = 0;
      for (int part = 0; part < 3; ++part) {
        const auto found = arrays.parts[part].floats();
        const int64_t heads = part == 0 ? shape.queries : 1;
        for (int64_t h = 0; h < tokens * shape.groups * heads; ++h) {
          const int64_t group = h / heads;
          const int64_t in_group = part == 0 ? h % heads : shape.queries + part - 1;
          const auto begin =
              mixed.begin() + (group * (shape.queries + 2) + in_group) * shape.channels;
          const std::vector<float> head(begin, begin + shape.channels);
          for (int64_t i = 0; i < shape.channels; ++i, ++checked) {
            HeadShape of_part = shape;
            if (part == 2) of_part.turned = 0;
            const auto [expected, size] =
                turned(of_part, head, cosine, sine, group / shape.groups % shape.tokens, i);
            EXPECT_NEAR(found[static_cast<size_t>(h * shape.channels + i)], expected,
                        (size * 0x1p-23 + std::abs(expected) * test::rounding_error(type)) * 1.01)
                << "part " << part << ", head " << h << ", channel " << i;
          }
        }
      }
      EXPECT_EQ(checked, static_cast<int64_t>(mixed.size()));
    }
  }
}

TEST(RotaryHeadsTest, TurnsBackToWhereItBegan) {
  for (const HeadShape& shape : test::kHeadShapes) {
    Arrays arrays(shape, FloatType::kFloat32, test::RotaryTables(shape));
    const std::vector<float> before = arrays.mixed.floats();
    const int64_t tokens = shape.rows * shape.tokens;
    rotary_heads_cpu(arrays.call(shape, /*apart=*/true), 0, tokens);
    arrays.mixed = FloatArray(FloatType::kFloat32, std::vector<float>(before.size(), 7));
    rotary_heads_cpu(arrays.call(shape, /*apart=*/false), 0, tokens);
    const std::vector<float> after = arrays.mixed.floats();
    for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 2e-6) << i;
  }
}

}  // namespace
}  // namespace meg::kernels
