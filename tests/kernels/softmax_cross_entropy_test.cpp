#include "libmeg/kernels/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/softmax_cross_entropy_formula.h"

namespace meg::kernels {
namespace {

using test::cross_entropy_case;
using test::CrossEntropyCase;
using test::FloatArray;
using test::kFloatTypes;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What forward writes.
struct Kept {
  explicit Kept(int64_t rows)
      : losses(static_cast<size_t>(rows)), maxima(losses.size()), sums(losses.size()) {}

  std::vector<float> losses, maxima, sums;
};

SoftmaxCrossEntropyForward forward_of(const CrossEntropyCase& made, Kept& kept) {
  return {made.logits.type(), made.logits.data(), made.labels.data(), kept.losses.data(),
          kept.maxima.data(), kept.sums.data(),   made.rows,          made.columns};
}

SoftmaxCrossEntropyBackward backward_of(const CrossEntropyCase& made, const Kept& kept,
                                        FloatArray& gradients) {
  return {made.logits.type(), made.logits.data(), made.labels.data(),
          kept.maxima.data(), kept.sums.data(),   made.grad_losses.data(),
          gradients.data(),   made.rows,          made.columns};
}

TEST(SoftmaxCrossEntropyTest, LossesAndGradientsMatchThePlainFormula) {
  for (const auto type : kFloatTypes) {
    for (const int64_t columns : {1, 2, 15, 16, 17, 296, 1023, 1024, 1025, 5003}) {
      const CrossEntropyCase made = cross_entropy_case(type, 11, columns);
      Kept kept(made.rows);
      ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, made.rows), -1);
      test::expect_losses(made, kept.losses);
      FloatArray gradients = made.logits;
      softmax_cross_entropy_backward_cpu(backward_of(made, kept, gradients), 0, made.rows);
      test::expect_gradients(made, gradients);
    }
  }
}

TEST(SoftmaxCrossEntropyTest, BothPassesInOneGiveTheBitsOfTwo) {
  for (const auto type : kFloatTypes) {
    CrossEntropyCase made = cross_entropy_case(type, 7, 2051);
    Kept kept(made.rows), kept_of_one(made.rows);
    FloatArray gradients = made.logits;
    ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, made.rows), -1);
    softmax_cross_entropy_backward_cpu(backward_of(made, kept, gradients), 0, made.rows);
    ASSERT_EQ(softmax_cross_entropy_forward_backward_cpu(forward_of(made, kept_of_one),
                                                         made.grad_losses.data(),
                                                         made.logits.data(), 0, made.rows),
              -1);
    EXPECT_EQ(test::bits_of(kept_of_one.losses), test::bits_of(kept.losses));
    EXPECT_EQ(test::bits_of(made.logits.floats()), test::bits_of(gradients.floats()));
  }
}

TEST(SoftmaxCrossEntropyTest, BothPassesWriteNothingWhereALabelIsOutside) {
  CrossEntropyCase made = cross_entropy_case(FloatType::kFloat32, 6, 64);
  made.labels[4] = 64;
  const auto before = made.logits.floats();
  Kept kept(made.rows);
  EXPECT_EQ(softmax_cross_entropy_forward_backward_cpu(
                forward_of(made, kept), made.grad_losses.data(), made.logits.data(), 0, made.rows),
            4);
  EXPECT_EQ(made.logits.floats(), before);
}

TEST(SoftmaxCrossEntropyTest, GradientsMayReplaceTheLogits) {
  for (const auto type : kFloatTypes) {
    CrossEntropyCase made = cross_entropy_case(type, 5, 3001);
    Kept kept(made.rows);
    ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, made.rows), -1);
    FloatArray apart = made.logits;
    softmax_cross_entropy_backward_cpu(backward_of(made, kept, apart), 0, made.rows);
    softmax_cross_entropy_backward_cpu(backward_of(made, kept, made.logits), 0, made.rows);
    EXPECT_EQ(apart.floats(), made.logits.floats());
  }
}

TEST(SoftmaxCrossEntropyTest, RowsDoNotDependOnHowTheyAreShared) {
  const CrossEntropyCase made = cross_entropy_case(FloatType::kFloat32, 23, 2345);
  Kept whole(made.rows), parts(made.rows);
  ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, whole), 0, 23), -1);
  for (const int64_t begin : {16, 0, 8}) {
    const int64_t end = std::min<int64_t>(begin + 8, 23);
    ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, parts), begin, end), -1);
  }
  EXPECT_EQ(test::bits_of(whole.losses), test::bits_of(parts.losses));
  EXPECT_EQ(test::bits_of(whole.sums), test::bits_of(parts.sums));
}

TEST(SoftmaxCrossEntropyTest, NamesTheFirstRowWhoseLabelIsOutside) {
  for (const int64_t label : {int64_t{-1}, int64_t{17}, std::numeric_limits<int64_t>::max()}) {
    CrossEntropyCase made = cross_entropy_case(FloatType::kFloat32, 6, 17);
    made.labels[4] = label;
    made.labels[5] = label;
    Kept kept(made.rows);
    EXPECT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, 6), 4);
    EXPECT_EQ(kept.losses, std::vector<float>(6, 0)) << "nothing is written";
    EXPECT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, 4), -1);
  }
}

TEST(SoftmaxCrossEntropyTest, TakesNoRows) {
  EXPECT_EQ(softmax_cross_entropy_forward_cpu({}, 0, 0), -1);
  softmax_cross_entropy_backward_cpu({}, 0, 0);
}

TEST(SoftmaxCrossEntropyTest, LargeLogitsDoNotOverflow) {
  CrossEntropyCase made = cross_entropy_case(FloatType::kFloat32, 3, 2000);
  std::vector<float> values(6000, -3e38f);
  values[7] = 3e38f;     // row 0: one logit far above, in its first run of elements
  values[3999] = 3e38f;  // row 1: in its last
  for (size_t i = 4000; i < 6000; ++i) values[i] = 1e30f;  // row 2: all alike
  made.logits = FloatArray(FloatType::kFloat32, values);
  made.labels = {7, 1999, 3};
  Kept kept(3);
  ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, 3), -1);
  EXPECT_EQ(kept.losses[0], 0);
  EXPECT_EQ(kept.losses[1], 0);
  EXPECT_FLOAT_EQ(kept.losses[2], std::log(2000.0f));
}

TEST(SoftmaxCrossEntropyTest, MinusInfinityIsProbabilityZero) {
  CrossEntropyCase made = cross_entropy_case(FloatType::kFloat32, 1, 4);
  made.logits = FloatArray(FloatType::kFloat32, {-kInfinity, 1, -kInfinity, 1});
  made.labels = {1};
  made.grad_losses = {1};
  Kept kept(1);
  ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, 1), -1);
  EXPECT_FLOAT_EQ(kept.losses[0], std::log(2.0f));
  FloatArray gradients = made.logits;
  softmax_cross_entropy_backward_cpu(backward_of(made, kept, gradients), 0, 1);
  EXPECT_EQ(gradients.floats(), (std::vector<float>{0, -0.5, 0, 0.5}));
}

TEST(SoftmaxCrossEntropyTest, NanAndInfinityReachTheLoss) {
  for (const float bad : {std::nanf(""), kInfinity}) {
    for (const size_t place : {size_t{0}, size_t{1500}, size_t{2999}}) {
      CrossEntropyCase made = cross_entropy_case(FloatType::kFloat32, 1, 3000);
      auto values = made.logits.floats();
      values[place] = bad;
      made.logits = FloatArray(FloatType::kFloat32, values);
      Kept kept(1);
      ASSERT_EQ(softmax_cross_entropy_forward_cpu(forward_of(made, kept), 0, 1), -1);
      EXPECT_TRUE(std::isnan(kept.losses[0])) << bad << " at " << place;
    }
  }
}

}  // namespace
}  // namespace meg::kernels
