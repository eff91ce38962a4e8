// Megatron's made-up documents: lengths, indices and samples as the oracle recorded them.

#include <gtest/gtest.h>
#include <sha2.h>

#include <numeric>

#include "libmeg/numpy/pcg64.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/internal/mock_gpt_dataset.h"
#include "tests/samples/oracle_samples.h"

namespace meg::samples {
namespace {

using nlohmann::json;

template <class T>
std::string sha256(std::span<const T> values) {
  char digest[SHA256_DIGEST_STRING_LENGTH];
  return SHA256Data(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes(), digest);
}

std::vector<json> mock_cases() {
  std::vector<json> cases;
  for (const json& index_case : test::dataset_oracle()["index"]) {
    if (index_case["case"] == "mock") cases.push_back(index_case);
  }
  return cases;
}

std::vector<int32_t> mock_lengths() {
  numpy::Pcg64 random(0);
  std::vector<int32_t> lengths(100'000);
  for (int32_t& length : lengths) length = 1 + static_cast<int32_t>(random.bounded(4094));
  return lengths;
}

void expect_samples(const json& index_case, Split split, const SampleDataset& mock) {
  const json& facts = index_case["splits"][std::string(split_name(split))];
  EXPECT_EQ(mock.size(), facts["len"].get<int64_t>());
  const bool whole = facts["sample_files"].contains("text");
  const auto rows = test::npy_rows(test::oracle_output(
      index_case, std::string(split_name(split)) + (whole ? "-text.npy" : "-samples-tokens.npy")));
  std::vector<int64_t> text(static_cast<size_t>(mock.text_length()));
  for (size_t row = 0; row < rows.size(); ++row) {
    ASSERT_TRUE(mock.text(facts["sample_ids"][row], -1, text).ok());
    EXPECT_EQ(std::vector<int64_t>(text.begin(), text.begin() + std::ssize(rows[row])), rows[row]);
  }
}

TEST(MockGptDatasetGolden, SamplesAreMegatrons) {
  MEG_REQUIRE_SHARED("oracle/datasets");
  for (const json& index_case : mock_cases()) {
    const auto version =
        megatron::parse_megatron_version(index_case["revision"].get<std::string>());
    for (const Split split : kSplits) {
      SCOPED_TRACE(index_case["revision"].get<std::string>() + " " +
                   std::string(split_name(split)));
      MockGptOptions options{.split = split,
                             .samples = std::nullopt,
                             .sequence_length = index_case["seq_length"],
                             .vocab_size = 50257,
                             .eod = 50256};
      if (index_case.contains("num_samples")) {
        options.samples = index_case["num_samples"][split_number(split)];
        options.seed = index_case["seed"];
      }
      const auto mock = make_mock_gpt_dataset(options, *version);
      ASSERT_TRUE(mock.has_value()) << mock.error().message();
      expect_samples(index_case, split, **mock);
    }
  }
}

TEST(MockGptDatasetGolden, LengthsAndIndicesAreMegatrons) {
  MEG_REQUIRE_SHARED("oracle/datasets");
  const std::vector<int32_t> lengths = mock_lengths();
  const dataset::LittleEndianArray<int32_t> array(std::as_bytes(std::span(lengths)));
  int compared = 0;
  for (const json& index_case : mock_cases()) {
    if (!index_case.contains("sequence_lengths_sha256_of_data")) continue;
    EXPECT_EQ(sha256(std::span(lengths)), index_case["sequence_lengths_sha256_of_data"]);
    const auto version =
        megatron::parse_megatron_version(index_case["revision"].get<std::string>());
    const auto ranges = SplitWeights::parse("1,1,1", *version)->ranges(std::ssize(lengths));
    for (const Split split : kSplits) {
      const dataset::SequenceRange range = *ranges[split_number(split)];
      const auto plan =
          plan_gpt_index({.sequences = range.end - range.begin,
                          .tokens = std::accumulate(lengths.begin() + range.begin,
                                                    lengths.begin() + range.end, int64_t{0}),
                          .longest_sequence = 4095,
                          .samples = index_case["num_samples"][split_number(split)],
                          .sequence_length = index_case["seq_length"]},
                         *version);
      const auto built = build_gpt_index_in_memory(*plan, array, range, index_case["seed"]);
      ASSERT_TRUE(built.has_value()) << built.error().message();
      const json& facts = index_case["splits"][std::string(split_name(split))];
      const auto hash = [](auto values) { return sha256(values); };
      EXPECT_EQ(hash(built->index.documents()), facts["document_index_sha256_of_data"]);
      EXPECT_EQ(std::visit(hash, built->index.rows()), facts["sample_index_sha256_of_data"]);
      EXPECT_EQ(std::visit(hash, built->index.shuffle()), facts["shuffle_index_sha256_of_data"]);
      ++compared;
    }
  }
  EXPECT_GE(compared, 9);
}

}  // namespace
}  // namespace meg::samples
