#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libmeg/model/hugging_face_names.h"
#include "tests/model/golden_names.h"

namespace meg::model {
namespace {

using test::Json;
using test::read_json;
using test::shared_path;

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// Names and shapes of all files of a folder of transformers.
Shapes told_shapes(const std::string& name) {
  Shapes shapes;
  const Json files = read_json(shared_path("oracle/checkpoints/" + name + "/tensors.json"));
  for (const auto& [file, tensors] : files.items()) {
    for (const Json& tensor : tensors) {
      shapes[tensor["name"]] = tensor["shape"].get<std::vector<int64_t>>();
    }
  }
  return shapes;
}

Shapes made_shapes(HuggingFaceFamily family, const GptConfig& config) {
  Shapes shapes;
  const auto tensors = hugging_face_tensors(family, config);
  EXPECT_TRUE(tensors.has_value()) << tensors.error().message();
  for (const HuggingFaceTensor& tensor : *tensors) shapes[tensor.name] = tensor.shape;
  return shapes;
}

GptConfig config_of(const std::string& megatron_case) {
  auto config = GptConfig::from_fields(test::json_fields(test::case_args(megatron_case)));
  EXPECT_TRUE(config.has_value()) << config.error().message();
  config->padded_vocab_size = 300;
  return *config;
}

TEST(HuggingFaceNamesGolden, AreThoseOfTransformers) {
  MEG_REQUIRE_SHARED("oracle/checkpoints");
  EXPECT_EQ(made_shapes(HuggingFaceFamily::kGpt2, config_of("megatron_from_hf_gpt2")),
            told_shapes("hf_gpt2"));
  EXPECT_EQ(made_shapes(HuggingFaceFamily::kLlama, config_of("megatron_from_hf_llama_tp2")),
            told_shapes("hf_llama"));
}

}  // namespace
}  // namespace meg::model
