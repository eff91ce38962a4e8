#include "libmeg/samples/cache/internal/index_description.h"

#include <gtest/gtest.h>

#include "libmeg/io/md5.h"

namespace meg::samples {
namespace {

megatron::MegatronVersion version_of(std::string_view name) {
  return *megatron::parse_megatron_version(name);
}

GptDescription tutorial(Split split, int64_t samples) {
  GptDescription description;
  description.prefix = "my-gpt2_text_document";
  description.samples = samples;
  description.split = split;
  description.seed = 1234;
  description.sequence_length = 1024;
  description.weights = *SplitWeights::parse("949,50,1", megatron::newest_megatron_version());
  description.tokenizer = {
      .class_name = "_GPT2BPETokenizer",
      .tokenizer_path = std::vector<std::optional<std::string>>{"vocab.json", "merges.txt"},
      .options = {}};
  return description;
}

TEST(IndexDescription, NamesTheCachesOfAPublicTutorial) {
  const megatron::MegatronVersion version = version_of("core_v0.5.0");
  const auto name = [&](Split split, int64_t samples) {
    return io::md5_hex(gpt_description(tutorial(split, samples), version));
  };
  EXPECT_EQ(name(Split::kTrain, 3200), "a375193ee7bd0ffbfa0d131aff630f11");
  EXPECT_EQ(name(Split::kValid, 480), "e9d835bb86bcaca4cd08b4977794f406");
  EXPECT_EQ(name(Split::kTest, 160), "fceb23beb87bf7aa15e27415203c9636");
}

TEST(IndexDescription, NamesTheCachesOfALogOfJanuary2024) {
  const megatron::MegatronVersion version = version_of("24.01");
  const auto name = [&](Split split, int64_t samples) {
    GptDescription description = tutorial(split, samples);
    description.prefix = "./data/meg-gpt2_text_document";
    return io::md5_hex(gpt_description(description, version));
  };
  EXPECT_EQ(name(Split::kTrain, 8000), "743f9c78682483773343914511a6c2a5");
  EXPECT_EQ(name(Split::kValid, 80080), "5c58c96640514eacb357eae3e1bd7c1d");
  EXPECT_EQ(name(Split::kTest, 80), "4422b241e58c2eba0e87abb1077559e9");
}

}  // namespace
}  // namespace meg::samples
