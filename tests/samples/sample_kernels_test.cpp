#include "libmeg/samples/internal/sample_kernels.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace meg::samples {
namespace {

/// All fields one after another, with a value after each that must stay.
struct Fields {
  explicit Fields(size_t length)
      : tokens(length + 1, -9),
        labels(length + 1, -9),
        position_ids(length + 1, -9),
        loss_mask(length + 1, -9) {}

  bool operator==(const Fields&) const = default;

  std::vector<int64_t> tokens;
  std::vector<int64_t> labels;
  std::vector<int64_t> position_ids;
  std::vector<float> loss_mask;
};

Fields filled(InstructionSet set, const std::vector<int64_t>& text, int64_t pad) {
  const size_t length = text.size() - 1;
  Fields fields(length);
  fill_fields_kernel(set)(text.data(), length, pad, fields.tokens.data(), fields.labels.data(),
                          fields.loss_mask.data(), fields.position_ids.data());
  return fields;
}

TEST(SampleKernels, EveryInstructionSetGivesTheSameFields) {
  std::mt19937_64 random(3);
  for (size_t length = 0; length < 70; ++length) {
    for (const int64_t pad : {int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{1} << 40}) {
      std::vector<int64_t> text(length + 1);
      for (int64_t& token : text) {
        // Pads, their halves of 32 bits, and other numbers.
        const int64_t others[] = {pad, pad & 0xffffffff, pad | (int64_t{1} << 33), 5, 0};
        token = others[random() % 5];
      }
      const Fields plain = filled(InstructionSet::kPortable, text, pad);
      EXPECT_EQ(filled(best_instruction_set(), text, pad), plain);
      for (size_t i = 0; i < length; ++i) {
        EXPECT_EQ(plain.tokens[i], text[i] == pad ? 0 : text[i]);
        EXPECT_EQ(plain.labels[i], text[i + 1] == pad ? 0 : text[i + 1]);
        EXPECT_EQ(plain.loss_mask[i], text[i + 1] == pad ? 0.0F : 1.0F);
        EXPECT_EQ(plain.position_ids[i], static_cast<int64_t>(i));
      }
      EXPECT_EQ(plain.tokens[length], -9);
      EXPECT_EQ(plain.loss_mask[length], -9);
    }
  }
}

}  // namespace
}  // namespace meg::samples
