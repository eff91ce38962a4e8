// Reshards of the real Megatron-LM tools: ours must give the same model, key for key and byte for
// byte.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/checkpoint/convert/reshard_cases.h"

namespace meg::checkpoint {
namespace {

using ::testing::IsEmpty;

/// One run of Megatron's converter, from the oracle's manifest.
struct Conversion {
  std::string name, source;
  ReshardOptions options;
};

std::vector<Conversion> conversions() {
  std::ifstream file(test::oracle("manifest.json"));
  const nlohmann::json manifest = nlohmann::json::parse(file);
  std::vector<Conversion> found;
  for (const nlohmann::json& entry : manifest["cases"]) {
    const std::string name = entry["name"];
    if (name.find("__to_") == std::string::npos) continue;
    Conversion conversion{.name = name, .source = entry["source"], .options = {}};
    conversion.options.keep_optimizer = false;
    // Before core 0.12 the tools widened whatever they converted.
    if (entry["revision"] != "core_v0.12.3") conversion.options.params_dtype = DType::kFloat32;
    const std::vector<std::string> arguments = entry["args"];
    for (size_t i = 0; i + 1 < arguments.size(); ++i) {
      const std::string& value = arguments[i + 1];
      if (arguments[i] == "--target-tensor-parallel-size") {
        conversion.options.tensor_model_parallel_size = std::stoll(value);
      } else if (arguments[i] == "--target-pipeline-parallel-size") {
        conversion.options.pipeline_model_parallel_size = std::stoll(value);
      } else if (arguments[i] == "--true-vocab-size") {
        conversion.options.true_vocab_size = std::stoll(value);
      } else if (arguments[i] == "--saver" && value == "legacy") {
        conversion.options.names = model::NameFamily::kLegacy;
      }
    }
    found.push_back(std::move(conversion));
  }
  return found;
}

TEST(ReshardGolden, ModelsEqualWhatMegatronsToolsWrote) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/manifest.json");
  const std::vector<Conversion> all = conversions();
  ASSERT_GE(all.size(), 20U);
  for (const Conversion& conversion : all) {
    SCOPED_TRACE(conversion.name);
    const test::TempFolder folder;
    test::reshard(test::oracle(conversion.source), folder.path("saved"), conversion.options);
    const test::Ranks theirs = test::open_ranks(test::oracle(conversion.name));
    const test::Ranks ours = test::open_ranks(folder.path("saved"));
    ASSERT_EQ(ours.size(), theirs.size());
    for (const auto& [name, file] : theirs) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(ours.contains(name));
      const test::TreeNode want = test::root_of(*file);
      const test::TreeNode found = test::root_of(*ours.at(name));
      EXPECT_THAT(test::differences(found.at("model"), want.at("model")), IsEmpty());
      EXPECT_THAT(test::differences(found.at("checkpoint_version"), want.at("checkpoint_version")),
                  IsEmpty());
      for (const char* field :
           {"padded_vocab_size", "tensor_model_parallel_size", "pipeline_model_parallel_size",
            "transformer_pipeline_model_parallel_size", "world_size", "use_legacy_models",
            "virtual_pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage",
            "sequence_parallel", "expert_tensor_parallel_size"}) {
        EXPECT_THAT(
            test::differences(found.at("args").attribute(field), want.at("args").attribute(field)),
            IsEmpty())
            << field;
      }
    }
  }
}

/// Versions 0 and 1.0 of the same weights, in other orders of query_key_value's rows.
TEST(ReshardGolden, OldRowOrdersBecomeTheModelsOwn) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/old_v0_tp2");
  const test::Ranks want = test::open_ranks(test::oracle("gpt_tp2pp2_fp16__to_tp2pp1"));
  for (const char* name : {"old_v0_tp2", "old_v1_tp2"}) {
    SCOPED_TRACE(name);
    const test::TempFolder folder;
    ReshardOptions options = test::to_layout(2, 1);
    options.names = model::NameFamily::kLegacy;
    test::reshard(test::oracle(name), folder.path("saved"), options);
    const test::Ranks found = test::open_ranks(folder.path("saved"));
    ASSERT_EQ(found.size(), want.size());
    for (const auto& [rank, file] : found) {
      const test::TreeNode root = test::root_of(*file);
      EXPECT_THAT(test::differences(root.at("model"), test::root_of(*want.at(rank)).at("model")),
                  IsEmpty());
      EXPECT_EQ(root.graph().as_number(root.at("checkpoint_version").id), 2.0);
    }
  }
}

}  // namespace
}  // namespace meg::checkpoint
