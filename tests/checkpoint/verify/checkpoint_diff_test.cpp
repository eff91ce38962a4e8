#include "libmeg/checkpoint/verify/checkpoint_diff.h"

#include <gmock/gmock.h>

#include <string>

#include "libmeg/checkpoint/convert/reshard.h"
#include "tests/checkpoint/verify/damaged_copy.h"

namespace meg::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

CheckpointDiff diff(const std::string& a, const std::string& b,
                    const CheckpointDiffOptions& options = {}) {
  const Result<CheckpointDiff> found =
      diff_checkpoints(test::open_whole(a), test::open_whole(b), options);
  EXPECT_TRUE(found.has_value()) << found.error().message();
  return found.has_value() ? *found : CheckpointDiff();
}

const std::string& whole() {
  static const std::string path = test::core_checkpoint("tp2pp2/whole");
  return path;
}

TEST(CheckpointDiff, FindsTheSameModelInEveryLayout) {
  for (const char* run : {"tp2pp2", "pp2_vpp2", "distopt_tp2_dp2"}) {
    const CheckpointDiff found = diff(test::core_checkpoint(std::string(run) + "/ranks"),
                                      test::core_checkpoint(std::string(run) + "/whole"));
    EXPECT_TRUE(found.equal()) << run;
    EXPECT_EQ(found.tensors, 4 * found.parameters) << run;  // weights, masters and two moments
  }
}

TEST(CheckpointDiff, NamesTheElementOfTheMergedTensor) {
  test::DamagedCopy copy;
  // Row 2 of the second tensor rank's 12 rows of 8.
  copy.set_element("mp_rank_01_001", "model/decoder.layers.0.self_attention.linear_qkv.weight",
                   2 * 8 + 5, 0.75F);
  const CheckpointDiff found = diff(copy.root(), whole());
  EXPECT_FALSE(found.equal());
  ASSERT_EQ(found.tensor_differences.size(), 1U);
  const TensorDifference& difference = found.tensor_differences[0];
  EXPECT_EQ(difference.name, "decoder.layers.1.self_attention.linear_qkv.weight");
  EXPECT_EQ(difference.kind, "weight");
  EXPECT_THAT(difference.index, ElementsAre(12 + 2, 5));
  EXPECT_EQ(difference.elements, 24 * 8);
  EXPECT_EQ(difference.found.count, 1);
  EXPECT_EQ(difference.found.first_a, "0.75");
}

TEST(CheckpointDiff, OptionsNarrowWhatIsCompared) {
  test::DamagedCopy copy;
  copy.set_element("mp_rank_00_000", "optimizer/optimizer/state/0/exp_avg", 0, 5.0F);
  EXPECT_FALSE(diff(copy.root(), whole()).equal());
  EXPECT_TRUE(diff(copy.root(), whole(), {.compare_optimizer = false}).equal());
  EXPECT_TRUE(diff(copy.root(), whole(), {.tolerance = {.atol = 6}}).equal());
  EXPECT_TRUE(diff(copy.root(), whole(), {.name_pattern = "layers\\.1\\."}).equal());
  const auto refused =
      diff_checkpoints(test::open_whole(whole()), test::open_whole(whole()), {.name_pattern = "("});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
}

TEST(CheckpointDiff, PaddingRowsMayDiffer) {
  test::DamagedCopy copy("tp2pp2/whole");
  copy.set_element("mp_rank_00", "model/embedding.word_embeddings.weight", 31 * 8, 5.0F);
  EXPECT_FALSE(diff(copy.root(), whole()).equal());
  const CheckpointDiff found = diff(copy.root(), whole(), {.vocab_size = 31});
  EXPECT_TRUE(found.equal());
  EXPECT_THAT(found.notes, Not(IsEmpty()));
}

TEST(CheckpointDiff, StateThatOneSideLacksIsANote) {
  const test::TempFolder folder;
  const MegatronCheckpoint source = test::open_whole(whole());
  ReshardOptions options;
  options.keep_optimizer = false;
  const Result<ReshardPlan> plan = plan_reshard(source, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  ASSERT_TRUE(save_reshard(source, *plan, folder.path("weights"), {}).ok());
  const CheckpointDiff found = diff(whole(), folder.path("weights"));
  EXPECT_TRUE(found.equal());
  EXPECT_THAT(found.notes, Contains("only A has exp_avg, exp_avg_sq, fp32_param: not compared"));
}

TEST(CheckpointDiff, OtherModelsDifferInTheirParametersAndFields) {
  const CheckpointDiff found = diff(whole(), test::core_checkpoint("pp2_vpp2/whole"));
  EXPECT_THAT(found.only_in_a, Contains(HasSubstr("linear_fc1.bias")));
  EXPECT_THAT(found.only_in_b, Contains(HasSubstr("decoder.layers.3.")));
  EXPECT_THAT(found.field_differences,
              Contains(::testing::Field(&FieldDifference::field, "args.num_layers")));
}

}  // namespace
}  // namespace meg::checkpoint
