#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "libmeg/model/parameter_count.h"
#include "libmeg/model/shard_axes.h"
#include "tests/model/golden_names.h"

namespace meg::model {
namespace {

using test::case_args;
using test::expected_family;
using test::Json;
using test::json_fields;
using test::shared_path;

int64_t size_or_1(const Json& args, const char* name) {
  return args.contains(name) && args[name].is_number() ? args[name].get<int64_t>() : 1;
}

ParallelSizes sizes_of(const Json& args) {
  ParallelSizes sizes;
  sizes.tensor_model_parallel_size = args.contains("model_parallel_size")
                                         ? size_or_1(args, "model_parallel_size")
                                         : size_or_1(args, "tensor_model_parallel_size");
  sizes.pipeline_model_parallel_size = size_or_1(args, "pipeline_model_parallel_size");
  sizes.virtual_pipeline_model_parallel_size =
      size_or_1(args, "virtual_pipeline_model_parallel_size");
  return sizes;
}

class ModelShapesGolden : public testing::Test {
 protected:
  void SetUp() override { MEG_REQUIRE_SHARED("oracle/checkpoints"); }

  ParameterTable table_ = std::move(ParameterTable::gpt()).value();
};

/// A parameter of params.json in the table's words.
RankParameter told_parameter(const ParameterTable& table, const PipelineLayout& layout,
                             int64_t stage, const Json& entry) {
  std::string name = entry[0];
  RankParameter told;
  if (name.starts_with("model")) {
    told.chunk = name[5] - '0';
    name.erase(0, 7);
  }
  // Legacy's last stage calls its copy of the embedding so; in the file it has another name.
  if (name == "word_embeddings.weight") name = kTiedCopyName;
  const auto match = table.match(name);
  EXPECT_TRUE(match) << name;
  if (!match) return told;
  told.name = match->canonical;
  if (match->layer) {
    told.layer = layout.first_layer(stage, told.chunk) + *match->layer;
    told.name = with_layer(match->canonical, *told.layer);
  }
  told.shape = entry[1].get<std::vector<int64_t>>();
  told.partition = match->partition;
  return told;
}

TEST_F(ModelShapesGolden, RanksHoldTheParametersThatMegatronNamesInItsOrder) {
  size_t ranks = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(shared_path("oracle/checkpoints"))) {
    const std::string name = folder.path().filename().string();
    if (!exists(folder.path() / "params.json") || name.find("_moe_") != std::string::npos) continue;
    SCOPED_TRACE(name);
    const Json args = case_args(name);
    const auto config = GptConfig::from_fields(json_fields(args));
    ASSERT_TRUE(config) << config.error().message();
    const ParallelSizes sizes = sizes_of(args);
    const auto layout = PipelineLayout::create(config->num_layers, sizes);
    ASSERT_TRUE(layout) << layout.error().message();
    const bool is_dist = name.find("dist_") != std::string::npos;
    const NameFamily family = is_dist ? NameFamily::kMcoreLocal : expected_family(name);
    for (const Json& rank : test::read_json((folder.path() / "params.json").string())) {
      const int64_t stage = rank["pp"];
      const auto found = rank_parameters(*config, sizes, stage, family, table_);
      ASSERT_TRUE(found) << found.error().message();
      ASSERT_EQ(found->size(), rank["named_parameters"].size());
      ++ranks;
      for (size_t i = 0; i < found->size(); ++i) {
        const Json& entry = rank["named_parameters"][i];
        SCOPED_TRACE(entry.dump());
        const RankParameter told = told_parameter(table_, *layout, stage, entry);
        const RankParameter& parameter = (*found)[i];
        const bool is_tied_mcore =
            told.name == "output_layer.weight" && !config->untie_embeddings_and_output_weights;
        EXPECT_EQ(parameter.name, is_tied_mcore ? kTiedCopyName : told.name);
        EXPECT_EQ(parameter.shape, told.shape);
        EXPECT_EQ(parameter.chunk, told.chunk);
        EXPECT_EQ(parameter.layer, told.layer);
        const bool is_cut = parameter.partition != Partition::kReplicated;
        EXPECT_EQ(is_cut, entry[2].get<bool>());
        EXPECT_EQ(is_cut ? (parameter.partition == Partition::kColumns ? 1 : 0) : -1,
                  entry[3].get<int>());
      }
    }
  }
  EXPECT_GT(ranks, 30U);
}

TEST_F(ModelShapesGolden, EveryShardHasAxesThatMultiplyToItsMergedElements) {
  for (const std::string& name : test::mp_rank_cases()) {
    SCOPED_TRACE(name);
    const Json args = case_args(name);
    const auto config = GptConfig::from_fields(json_fields(args));
    ASSERT_TRUE(config) << config.error().message();
    const int64_t ranks = sizes_of(args).tensor_model_parallel_size;
    const double version = name.starts_with("old_") ? (name.starts_with("old_v1") ? 1 : 0) : 3;
    for (const auto& [file, tensors] : test::model_tensors(name)) {
      for (const auto& [tensor, entry] : tensors) {
        const auto match = table_.match(tensor);
        if (match->is_extra_state || match->is_expert) continue;
        const auto shape = entry["shape"].get<std::vector<int64_t>>();
        const auto axes = shard_axes(match->partition, shape, ranks, *config, version);
        ASSERT_TRUE(axes) << tensor << ": " << axes.error().message();
        const auto merged = merged_shape(match->partition, shape, ranks);
        EXPECT_EQ(*shard_shape(match->partition, merged, ranks), shape);
        int64_t elements = 1;
        int64_t axis_elements = 1;
        for (const int64_t size : merged) elements *= size;
        for (const int64_t size : axes->sizes) axis_elements *= size;
        EXPECT_EQ(elements, axis_elements) << tensor;
        if (match->partition == Partition::kVocabulary) {
          EXPECT_EQ(merged[0], config->padded_vocab_size) << tensor;
        }
      }
    }
  }
}

TEST_F(ModelShapesGolden, ExtraStateIsAskedForWhereMegatronKeepsIt) {
  for (const std::string& name : test::mp_rank_cases()) {
    if (name.find("_moe_") != std::string::npos) continue;
    if (test::case_with_args(name) != name) continue;  // structure.json has no model
    const bool is_6ef5bdc = name.starts_with("gpt_") || name == "megatron_from_hf_gpt2";
    if (is_6ef5bdc) continue;  // legacy before core_v0.5 keeps none
    const NameFamily family = expected_family(name);
    SCOPED_TRACE(name);
    std::vector<std::string> found;
    for (const auto& [key, value] : test::model_keys(name)) {
      const auto match = table_.match(key);
      ASSERT_TRUE(match) << key;
      if (!match->is_extra_state || match->layer.value_or(0) != 0) continue;
      const size_t end = match->canonical.rfind('.');
      found.push_back(match->canonical.substr(0, end));
    }
    std::vector<std::string> asked = table_.extra_state_modules(family);
    const Json args = case_args(name);
    const bool is_untied = args.value("untie_embeddings_and_output_weights", false);
    const bool has_last_stage = size_or_1(args, "pipeline_model_parallel_size") == 1;
    if (!has_last_stage || (family == NameFamily::kLegacy && !is_untied)) {
      std::erase(asked, "output_layer");
    }
    EXPECT_EQ(found, asked);
  }
}

}  // namespace
}  // namespace meg::model
