// Samples as the real Megatron-LM gave them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/samples/filled_sample.h"
#include "tests/samples/oracle_samples.h"

namespace meg::samples {
namespace {

using nlohmann::json;
using test::fill;
using test::Filled;
using test::npy_rows;
using ::testing::Each;

constexpr int64_t kEod = 50256;

using Rows = std::vector<std::vector<int64_t>>;

/// One split's stored samples of an index case.
struct StoredSamples {
  StoredSamples(const json& index_case, const std::string& split) {
    const auto file = [&](const std::string& field) {
      return test::oracle_output(index_case, split + "-samples-" + field + ".npy");
    };
    tokens = npy_rows(file("tokens"));
    labels = npy_rows(file("labels"));
    loss_mask = npy_rows(file("loss_mask"));
    position_ids = npy_rows(file("position_ids"));
    const std::string packed = file("attention_mask_packed");
    if (!packed.empty()) attention_mask_packed = npy_rows(packed);
  }

  Rows tokens, labels, loss_mask, position_ids, attention_mask_packed;
};

GptSampleOptions options_of(const json& index_case) {
  const json& options = index_case["options"];
  return {.sequence_length = index_case["seq_length"],
          .extra_token = options.value("add_extra_token_to_sequence", true),
          .eod = kEod,
          .reset_position_ids = options.value("reset_position_ids", false),
          .reset_attention_mask = options.value("reset_attention_mask", false),
          .eod_mask_loss = options.value("eod_mask_loss", false)};
}

/// The text that a stored sample came from. Padding is stored as 0: it is known by its loss mask.
std::vector<int64_t> text_of(const StoredSamples& stored, size_t row,
                             const GptSampleOptions& options, bool padded) {
  std::vector<int64_t> text = {stored.tokens[row][0]};
  for (size_t i = 0; i < stored.labels[row].size(); ++i) {
    const bool pad = padded && stored.loss_mask[row][i] == 0;
    text.push_back(pad ? options.pad : stored.labels[row][i]);
  }
  if (!options.extra_token) text.pop_back();
  return text;
}

std::vector<int64_t> packed_bits(const std::vector<uint8_t>& bits) {
  std::vector<int64_t> bytes((bits.size() + 7) / 8);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0) bytes[i / 8] |= 0x80 >> (i % 8);
  }
  return bytes;
}

template <class T>
std::vector<int64_t> widened(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

/// Compares every stored sample of a case but its loss masks, which `check_loss_mask` gets in
/// order.
template <class CheckLossMask>
void compare_case(const json& index_case, bool padded, CheckLossMask check_loss_mask) {
  const GptSampleOptions options = options_of(index_case);
  for (const auto& [split, facts] : index_case["splits"].items()) {
    if (facts.is_null() || !facts["sample_files"].contains("labels")) continue;
    SCOPED_TRACE(index_case["revision"].get<std::string>() + " " +
                 index_case["case"].get<std::string>() + " " + split);
    const StoredSamples stored(index_case, split);
    for (size_t row = 0; row < stored.tokens.size(); ++row) {
      const Filled sample = fill(text_of(stored, row, options, padded), options);
      EXPECT_EQ(sample.tokens, stored.tokens[row]);
      EXPECT_EQ(sample.labels, stored.labels[row]);
      EXPECT_EQ(sample.position_ids, stored.position_ids[row]);
      check_loss_mask(widened(sample.loss_mask), stored.loss_mask[row]);
      if (row < stored.attention_mask_packed.size()) {
        EXPECT_EQ(packed_bits(sample.attention_mask), stored.attention_mask_packed[row]);
      }
    }
  }
}

bool has_samples(const json& index_case) {
  return index_case.contains("options") && index_case["splits"].is_object() &&
         index_case["revision"] != "6ef5bdc" && index_case["revision"] != "core_v0.4.0";
}

TEST(GptSampleGolden, EveryStoredSampleComesFromItsText) {
  MEG_REQUIRE_SHARED("oracle/datasets");
  int cases = 0;
  for (const json& index_case : test::dataset_oracle()["index"]) {
    if (!has_samples(index_case) || index_case["revision"] == "core_v0.9.0") continue;
    ++cases;
    compare_case(index_case, !options_of(index_case).eod_mask_loss,
                 [](const std::vector<int64_t>& found, const std::vector<int64_t>& stored) {
                   EXPECT_EQ(found, stored);
                 });
  }
  EXPECT_GT(cases, 50);
}

/// The case of the same name at another revision; both have the same samples.
const json& same_case(const json& index_case, const std::string& revision) {
  for (const json& other : test::dataset_oracle()["index"]) {
    if (other["case"] == index_case["case"] && other["revision"] == revision) return other;
  }
  return index_case;
}

// Megatron core 0.6 to 0.14 keeps one loss mask for all samples: a position masked for one sample
// is masked for all others too. Ours are those of 0.15.3, where each sample has its own.
TEST(GptSampleGolden, AMaskedPositionIsNotCarriedOverToOtherSamples) {
  MEG_REQUIRE_SHARED("oracle/datasets");
  int carried_over = 0;
  for (const json& index_case : test::dataset_oracle()["index"]) {
    if (!has_samples(index_case) || index_case["revision"] != "core_v0.9.0") continue;
    const bool one_mask = !options_of(index_case).eod_mask_loss;
    compare_case(index_case, false, [](auto...) {});
    for (const auto& [split, facts] : index_case["splits"].items()) {
      if (facts.is_null() || !facts["sample_files"].contains("labels") || !one_mask) continue;
      const Rows masks = StoredSamples(index_case, split).loss_mask;
      const Rows own_masks = StoredSamples(same_case(index_case, "core_v0.15.3"), split).loss_mask;
      std::vector<int64_t> carried = own_masks[0];
      for (const auto& own : own_masks) {
        for (size_t i = 0; i < own.size(); ++i) carried[i] &= own[i];
      }
      EXPECT_THAT(masks, Each(carried));
      carried_over += static_cast<int>(masks != own_masks);
    }
  }
  EXPECT_GT(carried_over, 0);
}

}  // namespace
}  // namespace meg::samples
