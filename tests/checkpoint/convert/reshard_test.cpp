#include "libmeg/checkpoint/convert/reshard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "tests/checkpoint/convert/reshard_cases.h"

namespace meg::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

// testdata/checkpoint: TP2 PP2, 4 layers, 75 tokens in a table of 80 rows, fp16.
const std::string kSmall = MEG_SOURCE_DIR "/testdata/checkpoint";

/// The error of planning a reshape.
std::string plan_error(const std::string& load, const ReshardOptions& options) {
  const auto checkpoint = test::open_checkpoint(load);
  if (!checkpoint.has_value()) return "open: " + checkpoint.error().message();
  const Result<ReshardPlan> plan = plan_reshard(*checkpoint, options);
  return plan.has_value() ? "" : plan.error().message();
}

TEST(Reshard, RefusesSizesThatDoNotDivideAndSaysWhichDo) {
  EXPECT_THAT(plan_error(kSmall, test::to_layout(3, 1)), HasSubstr("sizes up to 64 that do: 1, 2"));
  EXPECT_THAT(plan_error(kSmall, test::to_layout(1, 3)), HasSubstr("num_layers 4"));
  EXPECT_THAT(plan_error(kSmall, test::to_layout(1, 2, 4)), HasSubstr("num_layers 4"));
  EXPECT_THAT(plan_error(kSmall, test::to_layout(1, 1, 2)), HasSubstr("above 1"));
  EXPECT_THAT(plan_error(kSmall, test::to_layout(0, 1)), HasSubstr("above 0"));
}

TEST(Reshard, RefusesATableThatDoesNotDivideWithoutTheTrueVocabularySize) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/old_flat2019_tp2");
  OpenCheckpointOptions shape;
  shape.fallback = [](std::string_view name) -> std::optional<megatron::FieldValue> {
    const std::map<std::string_view, int64_t> fields = {{"num_layers", 4},
                                                        {"hidden_size", 32},
                                                        {"num_attention_heads", 4},
                                                        {"max_position_embeddings", 64},
                                                        {"make_vocab_size_divisible_by", 1}};
    const auto found = fields.find(name);
    return found == fields.end() ? std::nullopt
                                 : std::optional<megatron::FieldValue>(found->second);
  };
  const auto even = test::open_checkpoint(test::oracle("old_flat2019_tp2"), shape);
  ASSERT_TRUE(even.has_value()) << even.error().message();
  ReshardOptions to_odd = test::to_layout(1, 1);
  to_odd.true_vocab_size = 299;
  const Result<ReshardPlan> plan = plan_reshard(*even, to_odd);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  const test::TempFolder folder;
  ASSERT_TRUE(save_reshard(*even, *plan, folder.path("odd"), {}).ok());
  const auto odd = test::open_checkpoint(folder.path("odd"), shape);
  ASSERT_TRUE(odd.has_value()) << odd.error().message();
  const Result<ReshardPlan> refused = plan_reshard(*odd, test::to_layout(2, 1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("does not divide the 299 rows"));
  EXPECT_THAT(refused.error().message(), HasSubstr("sizes that do: 1, 13, 23;"));
}

TEST(Reshard, RefusesAVocabularyLargerThanTheTable) {
  ReshardOptions options = test::to_layout(1, 1);
  options.true_vocab_size = 81;
  EXPECT_THAT(plan_error(kSmall, options), HasSubstr("at most the 80 rows"));
}

TEST(Reshard, NeedsTheFileOfTheDistributedOptimizerUnlessItIsLeftOut) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp1pp1_bf16_distopt_dp2");
  const test::TempFolder folder;
  const std::string load = folder.path("load");
  fs::create_directories(load + "/mp_rank_00");
  const std::string source = "gpt_tp1pp1_bf16_distopt_dp2/iter_0005000/mp_rank_00/";
  fs::copy(test::oracle(source + "model_optim_rng.pt"), load + "/mp_rank_00");
  EXPECT_THAT(plan_error(load, test::to_layout(1, 1)),
              HasSubstr("expected the distributed optimizer's state in distrib_optim.pt beside it, "
                        "found no such file; `keep_optimizer = false` skips it"));
  ReshardOptions options = test::to_layout(1, 1);
  options.keep_optimizer = false;
  EXPECT_EQ(plan_error(load, options), "");
}

TEST(Reshard, RefusesToSaveOverWhatItReads) {
  const test::TempFolder folder;
  fs::copy(kSmall, folder.path("load"), fs::copy_options::recursive);
  fs::create_directory_symlink(folder.path("load"), folder.path("link"));
  const auto checkpoint = test::open_checkpoint(folder.path("load"));
  ASSERT_TRUE(checkpoint.has_value());
  const Result<ReshardPlan> plan = plan_reshard(*checkpoint, test::to_layout(1, 1));
  ASSERT_TRUE(plan.has_value());
  for (const std::string save : {"load", "load/", "link", "load/iter_0000100", "load/../load",
                                 "load/iter_0000100/a", "load/other", "link/other"}) {
    const Status status = save_reshard(*checkpoint, *plan, folder.path(save), {});
    EXPECT_THAT(status.message(), HasSubstr("outside the checkpoint that is read")) << save;
  }
  EXPECT_EQ(folder.file_count(), 2);
  EXPECT_TRUE(save_reshard(*checkpoint, *plan, folder.path("other"), {}).ok());
}

// The embedding, its master and its moments.
const std::vector<std::string> kTables = {
    "model/language_model/embedding/word_embeddings/weight", "optimizer/fp32_from_fp16_params/0/0",
    "optimizer/optimizer/state/0/exp_avg", "optimizer/optimizer/state/0/exp_avg_sq"};

/// Bytes of a table of a checkpoint at TP1.
std::vector<std::byte> table(const std::string& root, const std::string& path) {
  const test::Ranks ranks = test::open_ranks(root);
  return test::root_of(*ranks.at("mp_rank_00")).at(path).bytes();
}

TEST(Reshard, CutsPaddingRowsFromTheEndAndCountsThem) {
  // 60 tokens: 64 of the 80 rows.
  const test::TempFolder folder;
  ReshardOptions shrink = test::to_layout(1, 1);
  shrink.true_vocab_size = 60;
  const auto checkpoint = test::open_checkpoint(kSmall);
  ASSERT_TRUE(checkpoint.has_value());
  const Result<ReshardPlan> plan = plan_reshard(*checkpoint, shrink);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  EXPECT_EQ(plan->source_padded_vocab_size, 80);
  EXPECT_EQ(plan->target_padded_vocab_size, 64);
  EXPECT_EQ(plan->dropped_padding_rows, 16);
  EXPECT_EQ(plan->added_padding_rows, 0);
  ASSERT_TRUE(save_reshard(*checkpoint, *plan, folder.path("cut"), {}).ok());
  test::reshard(kSmall, folder.path("kept"), test::to_layout(1, 1));
  for (const std::string& path : kTables) {
    const std::vector<std::byte> before = table(folder.path("kept"), path);
    const std::vector<std::byte> after = table(folder.path("cut"), path);
    ASSERT_EQ(after.size(), before.size() / 80 * 64) << path;
    EXPECT_TRUE(std::equal(after.begin(), after.end(), before.begin())) << path;
  }
}

TEST(Reshard, GrowsTablesByTheLastRowAndMomentsByZeros) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp2_fp16");
  // 290 tokens: 304 rows at TP2, 320 at TP4.
  const test::TempFolder folder;
  ReshardOptions grow = test::to_layout(4, 1);
  grow.true_vocab_size = 290;
  test::reshard(test::oracle("gpt_tp2pp2_fp16"), folder.path("grown"), grow);
  test::reshard(folder.path("grown"), folder.path("whole"), test::to_layout(1, 1));
  test::reshard(test::oracle("gpt_tp2pp2_fp16"), folder.path("kept"), test::to_layout(1, 1));
  for (const std::string& path : kTables) {
    const bool repeats = path.find("state") == std::string::npos;
    const std::vector<std::byte> before = table(folder.path("kept"), path);
    const std::vector<std::byte> after = table(folder.path("whole"), path);
    const size_t row = before.size() / 304;
    ASSERT_EQ(after.size(), 320 * row) << path;
    EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin())) << path;
    for (size_t r = 304; r < 320; ++r) {
      for (size_t i = 0; i < row; ++i) {
        const std::byte want = repeats ? before[303 * row + i] : std::byte{0};
        ASSERT_EQ(after[r * row + i], want) << path << " row " << r;
      }
    }
  }
}

TEST(Reshard, MovesCudaSeedsByMegatronsRule) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/mcore_gpt_tp1pp1_fp32");
  const test::TempFolder folder;
  const auto notes = test::reshard(test::oracle("mcore_gpt_tp1pp1_fp32"), folder.path("saved"),
                                   test::to_layout(2, 2));
  EXPECT_THAT(notes, Contains(HasSubstr("random number generators")));
  // What a run with the same seed on four ranks has.
  const test::Ranks want = test::open_ranks(test::oracle("mcore_gpt_tp2pp2_bf16"));
  const test::Ranks found = test::open_ranks(folder.path("saved"));
  for (const auto& [name, file] : want) {
    SCOPED_TRACE(name);
    for (const char* path :
         {"cuda_rng_state", "rng_tracker_states/model-parallel-rng",
          "rng_tracker_states/data-parallel-rng", "rng_tracker_states/expert-parallel-rng"}) {
      const std::string full = std::string("rng_state/0/") + path;
      EXPECT_EQ(test::cuda_state(test::root_of(*found.at(name)).at(full)),
                test::cuda_state(test::root_of(*file).at(full)))
          << path;
    }
  }
}

TEST(Reshard, KeepsEveryRanksGeneratorsWhereRanksStay) {
  const test::TempFolder folder;
  const auto notes = test::reshard(kSmall, folder.path("saved"), test::to_layout(2, 2, 2));
  EXPECT_THAT(notes, Not(Contains(HasSubstr("random number generators"))));
  const test::Ranks found = test::open_ranks(folder.path("saved"));
  for (const auto& [name, file] : test::open_ranks(kSmall)) {
    EXPECT_THAT(test::differences(test::root_of(*found.at(name)).at("rng_state"),
                                  test::root_of(*file).at("rng_state")),
                IsEmpty());
  }
}

/// Fields of args that differ between two files.
std::vector<std::string> changed_args(test::TreeNode before, test::TreeNode after) {
  std::vector<std::string> changed;
  const PickleGraph& graph = before.graph();
  const auto fields = graph.pairs(*graph.attributes(before.id));
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    const std::string field(*graph.as_string(fields[i]));
    if (!test::differences({before.file, fields[i + 1]}, after.attribute(field)).empty()) {
      changed.push_back(field);
    }
  }
  EXPECT_EQ(graph.pairs(*after.graph().attributes(after.id)).size(), fields.size());
  return changed;
}

TEST(Reshard, ChangesTheArgsThatMustChangeAndNoOthers) {
  const test::TempFolder folder;
  test::reshard(kSmall, folder.path("saved"), test::to_layout(1, 2, 2));
  const test::Ranks before = test::open_ranks(kSmall);
  const test::Ranks after = test::open_ranks(folder.path("saved"));
  EXPECT_THAT(changed_args(test::root_of(*before.at("mp_rank_00_001")).at("args"),
                           test::root_of(*after.at("mp_rank_00_001")).at("args")),
              ::testing::UnorderedElementsAre("tensor_model_parallel_size", "world_size",
                                              "virtual_pipeline_model_parallel_size",
                                              "num_layers_per_virtual_pipeline_stage"));
}

TEST(Reshard, LeavesTheOptimizerAndItsSchedulerOut) {
  const test::TempFolder folder;
  ReshardOptions options = test::to_layout(1, 1);
  options.keep_optimizer = false;
  test::reshard(kSmall, folder.path("saved"), options);
  const test::Ranks ranks = test::open_ranks(folder.path("saved"));
  EXPECT_THAT(
      test::root_of(*ranks.at("mp_rank_00")).keys(),
      ::testing::ElementsAre("args", "checkpoint_version", "iteration", "model", "rng_state"));
}

TEST(Reshard, NamesGoBothWays) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp2_fp16");
  for (const auto& [name, there, back] :
       {std::tuple{"gpt_tp2pp2_fp16", model::NameFamily::kMcoreLocal, model::NameFamily::kLegacy},
        std::tuple{"mcore_gpt_tp2pp2_bf16", model::NameFamily::kLegacy,
                   model::NameFamily::kMcoreLocal},
        std::tuple{"v050_legacy_llama_tp2pp1_bf16", model::NameFamily::kMcoreTransformerEngine,
                   model::NameFamily::kLegacy}}) {
    SCOPED_TRACE(name);
    const test::TempFolder folder;
    const auto source = test::open_checkpoint(test::oracle(name));
    ASSERT_TRUE(source.has_value());
    ReshardOptions options = test::to_layout(1, 4);
    options.names = there;
    test::reshard(test::oracle(name), folder.path("there"), options);
    options = test::to_layout(source->tensor_model_parallel_size(),
                              source->pipeline_model_parallel_size());
    options.names = back;
    test::reshard(folder.path("there"), folder.path("back"), options);
    const test::Ranks found = test::open_ranks(folder.path("back"));
    for (const auto& [rank, file] : test::open_ranks(test::oracle(name))) {
      const test::TreeNode root = test::root_of(*found.at(rank));
      for (const char* key : {"model", "optimizer"}) {
        EXPECT_THAT(test::differences(root.at(key), test::root_of(*file).at(key)), IsEmpty())
            << rank << " " << key;
      }
    }
  }
}

TEST(Reshard, CarriesTheExtraStateOfTransformerEngine) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/derived_te_names_llama_tp2pp1");
  const test::TempFolder folder;
  const std::string load = test::oracle("derived_te_names_llama_tp2pp1");
  test::reshard(load, folder.path("b"), test::to_layout(1, 4));
  test::reshard(folder.path("b"), folder.path("a"), test::to_layout(2, 1));
  const test::Ranks found = test::open_ranks(folder.path("a"));
  for (const auto& [rank, file] : test::open_ranks(load)) {
    EXPECT_THAT(test::differences(test::root_of(*found.at(rank)).at("model"),
                                  test::root_of(*file).at("model")),
                IsEmpty());
  }
}

/// The transfer of one tensor of a plan.
TensorTransfer& transfer(ReshardPlan& plan, const std::string& name) {
  for (TensorTransfer& found : plan.transfers.transfers) {
    if (found.name == name) return found;
  }
  ADD_FAILURE() << "no transfer " << name;
  return plan.transfers.transfers.at(0);
}

/// Saves testdata/checkpoint in a layout in which the last target of one tensor holds another
/// tensor's bytes.
void save_with_strange_replica(const ReshardOptions& options, const std::string& tensor,
                               const std::string& other, const std::string& save) {
  const auto checkpoint = test::open_checkpoint(kSmall);
  ASSERT_TRUE(checkpoint.has_value());
  Result<ReshardPlan> plan = plan_reshard(*checkpoint, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  TensorTransfer strange = transfer(*plan, other);
  TensorTransfer& original = transfer(*plan, tensor);
  strange.targets = {original.targets.back()};
  original.targets.pop_back();
  plan->transfers.transfers.push_back(strange);
  const Status saved = save_reshard(*checkpoint, *plan, save, {});
  ASSERT_TRUE(saved.ok()) << saved.message();
}

constexpr const char* kEmbedding = "embedding.word_embeddings.weight";

TEST(Reshard, RefusesATiedCopyThatIsNoCopy) {
  const test::TempFolder folder;
  ReshardOptions options = test::to_layout(1, 2);
  options.params_dtype = DType::kFloat32;
  save_with_strange_replica(options, fmt::format("{} weight", kEmbedding),
                            fmt::format("{} exp_avg", kEmbedding), folder.path("sick"));
  const std::string error = plan_error(folder.path("sick"), test::to_layout(1, 1));
  EXPECT_THAT(error, HasSubstr("word_embeddings_for_head.weight"));
  EXPECT_THAT(error, HasSubstr("verify checkpoint"));
}

TEST(Reshard, NotesStateOfTheTiedCopyThatDiffers) {
  const test::TempFolder folder;
  save_with_strange_replica(test::to_layout(1, 2), fmt::format("{} exp_avg", kEmbedding),
                            fmt::format("{} exp_avg_sq", kEmbedding), folder.path("sick"));
  EXPECT_THAT(test::reshard(folder.path("sick"), folder.path("saved"), test::to_layout(1, 1)),
              Contains(HasSubstr("exp_avg of the tied copy")));
}

TEST(Reshard, NotesReplicasThatDrifted) {
  const test::TempFolder folder;
  const std::string norm = "decoder.layers.2.input_layernorm.weight";
  save_with_strange_replica(test::to_layout(2, 1), norm + " exp_avg", norm + " exp_avg_sq",
                            folder.path("sick"));
  EXPECT_THAT(test::reshard(folder.path("sick"), folder.path("saved"), test::to_layout(1, 1)),
              Contains(HasSubstr("1 replicated tensors differ between tensor ranks (" + norm)));
}

TEST(Reshard, WritesTheTrackerLastAndKeepsTheIteration) {
  const test::TempFolder folder;
  test::reshard(kSmall, folder.path("saved"), test::to_layout(1, 1));
  EXPECT_EQ(test::read_file(folder.path("saved/latest_checkpointed_iteration.txt")), "100");
  EXPECT_TRUE(fs::exists(folder.path("saved/iter_0000100/mp_rank_00/model_optim_rng.pt")));
}

TEST(Reshard, ReleaseStaysRelease) {
  const test::TempFolder folder;
  fs::create_directories(folder.path("load"));
  fs::copy(kSmall + "/iter_0000100", folder.path("load/release"), fs::copy_options::recursive);
  test::write_file(folder.path("load/latest_checkpointed_iteration.txt"), "release");
  test::reshard(folder.path("load"), folder.path("saved"), test::to_layout(4, 1));
  EXPECT_EQ(test::read_file(folder.path("saved/latest_checkpointed_iteration.txt")), "release");
  EXPECT_TRUE(fs::exists(folder.path("saved/release/mp_rank_03/model_optim_rng.pt")));
}

}  // namespace
}  // namespace meg::checkpoint
