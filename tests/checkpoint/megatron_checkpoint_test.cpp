#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/transfer/merged_reader.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string case_path(const std::string& name) {
  return test::shared_path("oracle/checkpoints/" + name);
}

Result<MegatronCheckpoint> open_case(const std::string& path,
                                     const OpenCheckpointOptions& options = {}) {
  Result<CheckpointFolder> folder = find_checkpoint(path);
  if (!folder.has_value()) return folder.error();
  return MegatronCheckpoint::open(*folder, options);
}

/// The whole merged tensor as float32 (or as it is where it is no float).
std::vector<std::byte> merged(const LogicalParameter& parameter, const LogicalTensor& tensor) {
  int64_t numel = 1;
  for (const int64_t size : parameter.shape) numel *= size;
  std::vector<std::byte> bytes(static_cast<size_t>(numel * dtype_size(tensor.dtype)));
  const Status read = read_merged(parameter, tensor, 0, bytes);
  EXPECT_TRUE(read.ok()) << read.message();
  std::vector<std::byte> wide(static_cast<size_t>(numel) * 4);
  const Status widened = convert_floats(tensor.dtype, bytes, DType::kFloat32, wide);
  EXPECT_TRUE(widened.ok()) << widened.message();
  return wide;
}

struct Layout {
  const char* name;
  int64_t tensor, pipeline, virtual_size;
  model::NameFamily family;
  OptimizerForm optimizer;
};

class GoldenLayout : public ::testing::TestWithParam<Layout> {};

TEST_P(GoldenLayout, IsFoundFromMetadata) {
  const Layout& expected = GetParam();
  MEG_REQUIRE_SHARED(std::string("oracle/checkpoints/") + expected.name);
  const Result<MegatronCheckpoint> opened = open_case(case_path(expected.name));
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  EXPECT_EQ(opened->tensor_model_parallel_size(), expected.tensor);
  EXPECT_EQ(opened->pipeline_model_parallel_size(), expected.pipeline);
  EXPECT_EQ(opened->virtual_pipeline_model_parallel_size(), expected.virtual_size);
  EXPECT_EQ(opened->family(), expected.family);
  EXPECT_EQ(opened->optimizer().form, expected.optimizer);
  EXPECT_EQ(opened->files().size(), static_cast<size_t>(expected.tensor * expected.pipeline));
  EXPECT_EQ(opened->tied_copy() != nullptr,
            expected.pipeline > 1 && !opened->config().untie_embeddings_and_output_weights);
}

INSTANTIATE_TEST_SUITE_P(
    Oracle, GoldenLayout,
    ::testing::Values(Layout{"gpt_tp1pp1_fp32", 1, 1, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kFp32},
                      Layout{"gpt_tp2pp2_fp16", 2, 2, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kMixedPrecision},
                      Layout{"gpt_tp2pp2_bf16_untied", 2, 2, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kMixedPrecision},
                      Layout{"gpt_tp1pp3_vpp2_fp16", 1, 3, 2, model::NameFamily::kLegacy,
                             OptimizerForm::kMixedPrecision},
                      Layout{"gpt_tp2pp1_llamaish_bf16", 2, 1, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kMixedPrecision},
                      Layout{"gpt_tp2pp2_bf16_distopt", 2, 2, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kMixedPrecision},
                      Layout{"gpt_tp1pp1_bf16_distopt_dp2", 1, 1, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kMixedPrecision},
                      Layout{"gpt_tp2pp2_fp16__to_tp1pp4", 1, 4, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kNone},
                      Layout{"v050_legacy_llama_tp2pp1_bf16", 2, 1, 1, model::NameFamily::kLegacy,
                             OptimizerForm::kMixedPrecision},
                      Layout{"mcore_gpt_tp2pp2_bf16", 2, 2, 1, model::NameFamily::kMcoreLocal,
                             OptimizerForm::kMixedPrecision},
                      Layout{"mcore_gpt_tp1pp1_bf16_distopt_dp2", 1, 1, 1,
                             model::NameFamily::kMcoreLocal, OptimizerForm::kMixedPrecision},
                      Layout{"mcore_llama_tp2pp1_fp32", 2, 1, 1, model::NameFamily::kMcoreLocal,
                             OptimizerForm::kFp32},
                      Layout{"derived_te_names_llama_tp2pp1", 2, 1, 1,
                             model::NameFamily::kMcoreTransformerEngine, OptimizerForm::kNone},
                      Layout{"old_v0_tp2", 2, 1, 1, model::NameFamily::kOld, OptimizerForm::kNone},
                      Layout{"old_v1_tp2", 2, 1, 1, model::NameFamily::kOld, OptimizerForm::kNone},
                      Layout{"megatron_from_hf_llama_tp2", 2, 1, 1, model::NameFamily::kMcoreLocal,
                             OptimizerForm::kNone}),
    [](const auto& instance) { return instance.param.name; });

struct Pair {
  const char *one, *other;
};

class GoldenPair : public ::testing::TestWithParam<Pair> {};

/// Megatron's own converter made `other` from `one`: every row that both hold is the same.
TEST_P(GoldenPair, MergesToTheSameModel) {
  MEG_REQUIRE_SHARED(std::string("oracle/checkpoints/") + GetParam().one);
  OpenCheckpointOptions options;
  options.ignore_optimizer = true;
  const Result<MegatronCheckpoint> one = open_case(case_path(GetParam().one), options);
  ASSERT_TRUE(one.has_value()) << one.error().message();
  const Result<MegatronCheckpoint> other = open_case(case_path(GetParam().other), options);
  ASSERT_TRUE(other.has_value()) << other.error().message();
  ASSERT_EQ(one->parameters().size(), other->parameters().size());
  for (const LogicalParameter& parameter : one->parameters()) {
    const auto found =
        std::find_if(other->parameters().begin(), other->parameters().end(),
                     [&](const LogicalParameter& each) { return each.name == parameter.name; });
    ASSERT_NE(found, other->parameters().end()) << parameter.name;
    const std::vector<std::byte> left = merged(parameter, parameter.tensors[0]);
    const std::vector<std::byte> right = merged(*found, found->tensors[0]);
    const size_t common = std::min(left.size(), right.size());
    if (parameter.partition != model::Partition::kVocabulary) {
      EXPECT_EQ(left.size(), right.size());
    }
    EXPECT_EQ(std::memcmp(left.data(), right.data(), common), 0) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Oracle, GoldenPair,
    ::testing::Values(Pair{"gpt_tp1pp1_fp32", "gpt_tp1pp1_fp32__to_tp2pp2"},
                      Pair{"gpt_tp2pp2_fp16", "gpt_tp2pp2_fp16__to_tp1pp1"},
                      Pair{"gpt_tp2pp2_fp16", "gpt_tp2pp2_fp16__to_tp1pp4"},
                      Pair{"gpt_tp2pp2_fp16", "gpt_tp2pp2_fp16__to_tp4pp1_novocab"},
                      Pair{"gpt_tp2pp2_fp16__to_tp1pp1", "old_v0_tp2"},
                      Pair{"gpt_tp2pp2_fp16__to_tp1pp1", "old_v1_tp2"},
                      Pair{"gpt_tp2pp2_bf16_untied", "gpt_tp2pp2_bf16_untied__to_tp4pp1"},
                      Pair{"gpt_tp1pp3_vpp2_fp16", "gpt_tp1pp3_vpp2_fp16__to_tp1pp1"},
                      Pair{"gpt_tp2pp1_llamaish_bf16", "gpt_tp2pp1_llamaish_bf16__to_tp1pp1"},
                      Pair{"gpt_tp2pp1_llamaish_bf16", "gpt_tp2pp1_llamaish_bf16__to_tp4pp2"},
                      Pair{"mcore_gpt_tp2pp2_bf16", "mcore_gpt_tp2pp2_bf16__to_legacy_tp1pp1"},
                      Pair{"mcore_gpt_tp2pp2_bf16", "mcore_gpt_tp2pp2_bf16__to_tp4pp1"},
                      Pair{"mcore_llama_tp2pp1_fp32", "mcore_llama_tp2pp1_fp32__to_tp1pp2"},
                      Pair{"mcore_llama_tp1pp1_bf16", "derived_te_names_llama_tp2pp1"},
                      Pair{"v050_legacy_llama_tp2pp1_bf16",
                           "v050_legacy_llama_tp2pp1_bf16__to_tp1pp1"}),
    [](const auto& instance) {
      return std::string(instance.param.one) + "_and_" + instance.param.other;
    });

/// The name that params.json gives a parameter of a chunk.
std::string params_name(const std::string& flat, bool chunked, int64_t chunk) {
  std::string name = flat == "word_embeddings_for_head.weight" ? "word_embeddings.weight" : flat;
  return chunked ? fmt::format("model{}/{}", chunk, name) : name;
}

class GoldenOptimizer : public ::testing::TestWithParam<const char*> {};

/// params.json lists, group by group, which parameter has which id in every rank's optimizer.
TEST_P(GoldenOptimizer, StatesBelongToTheParametersThatTrainingSaysTheyDo) {
  MEG_REQUIRE_SHARED(std::string("oracle/checkpoints/") + GetParam());
  const Result<MegatronCheckpoint> opened = open_case(case_path(GetParam()));
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  std::ifstream text(case_path(GetParam()) + "/params.json");
  const nlohmann::json ranks = nlohmann::json::parse(text);
  std::vector<const LogicalParameter*> all;
  for (const LogicalParameter& parameter : opened->parameters()) all.push_back(&parameter);
  if (opened->tied_copy() != nullptr) all.push_back(opened->tied_copy());
  size_t compared = 0;
  for (const nlohmann::json& rank : ranks) {
    if (rank["dp"] != 0) continue;
    const int64_t t = rank["tp"];
    const int64_t p = rank["pp"];
    const int file = opened->file_index(t, p);
    const TorchFile& torch_file = *opened->files()[static_cast<size_t>(file)].file;
    const PickleGraph& graph = torch_file.graph();
    PickleId optimizer = *graph.find(torch_file.root(), "optimizer");
    if (opened->optimizer().form == OptimizerForm::kMixedPrecision) {
      optimizer = *graph.find(optimizer, "optimizer");
    }
    const std::span<const PickleId> state = graph.pairs(*graph.find(optimizer, "state"));
    std::vector<std::string> by_id;
    const char* key = rank.contains("float16_groups") ? "float16_groups" : "groups";
    for (const nlohmann::json& group : rank[key]) {
      for (const nlohmann::json& name : group) by_id.push_back(name);
    }
    ASSERT_EQ(state.size(), 2 * by_id.size());
    for (size_t i = 0; i < state.size(); i += 2) {
      const std::string& name = by_id[static_cast<size_t>(*graph.as_int(state[i]))];
      const TensorView* expected = torch_file.tensor(*graph.find(state[i + 1], "exp_avg_sq"));
      int64_t first_layer = 0;  // of the chunk: parameters know their layer in the model
      for (const LogicalParameter* parameter : all) {
        if (parameter->stage != p) continue;
        if (parameter->layer.has_value()) {
          first_layer = opened->config().num_layers;
          for (const LogicalParameter* each : all) {
            if (each->stage == p && each->chunk == parameter->chunk && each->layer.has_value()) {
              first_layer = std::min(first_layer, *each->layer);
            }
          }
        }
        const std::string flat =
            parameter->layer.has_value()
                ? model::with_layer(parameter->spelling, *parameter->layer - first_layer)
                : parameter->spelling;
        if (params_name(flat, opened->virtual_pipeline_model_parallel_size() > 1,
                        parameter->chunk) != name) {
          continue;
        }
        const LogicalTensor* found = parameter->tensor("exp_avg_sq");
        ASSERT_NE(found, nullptr) << name;
        const auto number = static_cast<size_t>(t);
        const Piece& shard = found->pieces.size() > 1 || t == 0 ? found->pieces[number]
                                                                : found->replicas[number - 1];
        const auto storage = static_cast<size_t>(expected->storage);
        ASSERT_TRUE(shard.source->file_extent().has_value());
        EXPECT_EQ(shard.source->file_extent()->offset, torch_file.storages()[storage].file_offset)
            << name;
        ++compared;
      }
    }
  }
  size_t expected_count = 0;
  for (const LogicalParameter* parameter : all)
    expected_count += parameter->tensors[0].pieces.size() + parameter->tensors[0].replicas.size();
  EXPECT_EQ(compared, expected_count);
}

INSTANTIATE_TEST_SUITE_P(Oracle, GoldenOptimizer,
                         ::testing::Values("gpt_tp1pp1_fp32", "gpt_tp2pp2_fp16",
                                           "gpt_tp2pp2_bf16_untied", "gpt_tp1pp3_vpp2_fp16",
                                           "gpt_tp2pp1_llamaish_bf16", "mcore_gpt_tp2pp2_bf16",
                                           "mcore_llama_tp2pp1_fp32",
                                           "v050_legacy_llama_tp2pp1_bf16"),
                         [](const auto& instance) { return std::string(instance.param); });

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp2_fp16");
    fs::copy(case_path("gpt_tp2pp2_fp16"), root_, fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      fs::permissions(entry.path(), fs::perms::owner_all, fs::perm_options::add);
    }
  }

  fs::path rank(const std::string& name) const { return fs::path(root_) / "iter_0005000" / name; }

  std::string error() const {
    const Result<MegatronCheckpoint> opened = open_case(root_);
    EXPECT_FALSE(opened.has_value());
    return opened.has_value() ? "" : opened.error().message();
  }

  test::TempFolder folder_;
  std::string root_ = folder_.path("checkpoint");
};

TEST_F(DamagedCheckpoint, MissingRanksAreNamedAndCountedAgainstArgs) {
  fs::remove_all(rank("mp_rank_01_001"));
  EXPECT_THAT(error(), HasSubstr("expected 4 rank files (tensor 2 x pipeline 2 in args), found 3; "
                                 "missing: mp_rank_01_001"));
}

TEST_F(DamagedCheckpoint, RanksBeyondTheArgsAreRefused) {
  fs::copy(rank("mp_rank_00_000"), rank("mp_rank_02_000"), fs::copy_options::recursive);
  EXPECT_THAT(error(), HasSubstr("found 5 rank folders"));
}

TEST_F(DamagedCheckpoint, RanksOfAnotherIterationAreRefused) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/mcore_gpt_tp2pp2_bf16");
  fs::copy(case_path("mcore_gpt_tp2pp2_bf16/iter_0000200/mp_rank_01_000/model_optim_rng.pt"),
           rank("mp_rank_01_000/model_optim_rng.pt"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(error(), HasSubstr("iteration: expected 5000"));
}

TEST_F(DamagedCheckpoint, RanksOfAnotherStageAreRefused) {
  fs::copy(rank("mp_rank_01_001/model_optim_rng.pt"), rank("mp_rank_01_000/model_optim_rng.pt"),
           fs::copy_options::overwrite_existing);
  EXPECT_THAT(error(), HasSubstr("mp_rank_01_000/model_optim_rng.pt: model: expected "
                                 "language_model.embedding.word_embeddings.weight"));
}

TEST(MegatronCheckpointTest, NumbersExpertsThroughTheLayer) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/mcore_moe_tp1pp1_ep2_bf16");
  const auto opened = open_case(case_path("mcore_moe_tp1pp1_ep2_bf16"));
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  EXPECT_EQ(opened->expert_model_parallel_size(), 2);
  EXPECT_EQ(opened->parameters().size(), 64u);
}

TEST(MegatronCheckpointTest, TakesMissingArgsFromTheCaller) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/old_flat2019_tp2");
  OpenCheckpointOptions options;
  EXPECT_FALSE(open_case(case_path("old_flat2019_tp2"), options).has_value());
  options.fallback = [](std::string_view name) -> std::optional<megatron::FieldValue> {
    if (name == "num_layers") return int64_t{4};
    if (name == "hidden_size") return int64_t{32};
    if (name == "num_attention_heads") return int64_t{4};
    if (name == "max_position_embeddings") return int64_t{64};
    return std::nullopt;
  };
  const auto opened = open_case(case_path("old_flat2019_tp2"), options);
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  EXPECT_EQ(opened->tensor_model_parallel_size(), 2);
  EXPECT_EQ(opened->family(), model::NameFamily::kFlat);
  EXPECT_EQ(opened->checkpoint_version(), 0);
}

}  // namespace
}  // namespace meg::checkpoint
