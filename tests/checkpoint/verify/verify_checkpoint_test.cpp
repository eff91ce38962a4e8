// What verify_checkpoint() finds in a checkpoint in which one thing is broken.

#include "libmeg/checkpoint/verify/verify_checkpoint.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "tests/checkpoint/verify/damaged_copy.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CheckpointReport verify(const std::string& path, const VerifyCheckpointOptions& options = {}) {
  const Result<CheckpointReport> report = verify_checkpoint(path, options);
  EXPECT_TRUE(report.has_value()) << report.error().message();
  return report.has_value() ? *report : CheckpointReport();
}

/// Values are judged although the CRC-32s are no longer those of the bytes.
VerifyCheckpointOptions without_crcs() {
  VerifyCheckpointOptions options;
  options.check_crcs = false;
  return options;
}

std::set<std::string> checks(const CheckpointReport& report) {
  std::set<std::string> names;
  for (const Problem& problem : report.problems) names.emplace(problem.check);
  return names;
}

std::string messages(const CheckpointReport& report) {
  std::string all;
  for (const Problem& problem : report.problems) all += problem.message() + '\n';
  return all;
}

TEST(VerifyCheckpoint, FindsNothingInWhatCoreSaved) {
  for (const char* run : {"tp2pp2", "pp2_vpp2", "distopt_tp2_dp2"}) {
    for (const char* layout : {"/ranks", "/whole"}) {
      const CheckpointReport report = verify(test::core_checkpoint(std::string(run) + layout));
      EXPECT_TRUE(report.ok()) << run << layout << ": " << messages(report);
      EXPECT_GT(report.tensors, 0);
    }
  }
}

constexpr const char* kNorm = "model/decoder.layers.0.input_layernorm.weight";
constexpr const char* kQkv = "model/decoder.layers.0.self_attention.linear_qkv.weight";

/// Of parameters that tensor ranks divide.
constexpr const char* kMoment = "optimizer/optimizer/state/2/exp_avg";
constexpr const char* kSquare = "optimizer/optimizer/state/2/exp_avg_sq";

struct Damage {
  const char* name;
  std::function<void(test::DamagedCopy&)> inflict;
  std::set<std::string> checks;
};

/// Sets an element of a tensor.
std::function<void(test::DamagedCopy&)> element(const char* rank, const char* tensor,
                                                int64_t element, float value) {
  return [=](test::DamagedCopy& copy) { copy.set_element(rank, tensor, element, value); };
}

TEST(VerifyCheckpoint, EachDamageIsFoundByItsCheck) {
  const Damage damages[] = {
      {"NaN in a moment", element("mp_rank_00_000", kMoment, 3, NAN), {"not_finite"}},
      {"infinity in a moment", element("mp_rank_01_001", kMoment, 7, INFINITY), {"not_finite"}},
      {"a weight", element("mp_rank_01_000", kQkv, 17, 0.75F), {"masters"}},
      {"a norm of one tensor rank",
       element("mp_rank_01_000", kNorm, 3, 0.75F),
       {"masters", "replicas"}},
      {"the tied copy",
       element("mp_rank_00_001", "model/output_layer.weight", 9, 0.75F),
       {"masters", "tied_embeddings"}},
      {"a lost file",
       [](test::DamagedCopy& copy) { fs::remove(copy.file("mp_rank_01_001")); },
       {"rank_files"}},
      {"a rank too many",
       [](test::DamagedCopy& copy) {
         fs::copy(copy.iteration() + "/mp_rank_00_000", copy.iteration() + "/mp_rank_02_000");
       },
       {"rank_files"}},
      {"an empty file",
       [](test::DamagedCopy& copy) { fs::resize_file(copy.file("mp_rank_00_001"), 0); },
       {"file"}},
      {"a file cut short",
       [](test::DamagedCopy& copy) {
         const std::string file = copy.file("mp_rank_00_001");
         fs::resize_file(file, fs::file_size(file) - 100);
       },
       {"file"}},
      {"a renamed folder",
       [](test::DamagedCopy& copy) {
         fs::rename(copy.iteration(), copy.root() + "/iter_0000003");
         test::write_file(copy.root() + "/latest_checkpointed_iteration.txt", "3");
       },
       {"iteration"}},
      {"a tracker of another iteration",
       [](test::DamagedCopy& copy) {
         test::write_file(copy.root() + "/latest_checkpointed_iteration.txt", "9");
       },
       {"tracker"}},
      {"a tracker without a number",
       [](test::DamagedCopy& copy) {
         test::write_file(copy.root() + "/latest_checkpointed_iteration.txt", "yesterday");
       },
       {"tracker"}}};
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.name);
    test::DamagedCopy copy;
    damage.inflict(copy);
    const CheckpointReport report = verify(copy.root(), without_crcs());
    EXPECT_EQ(checks(report), damage.checks) << messages(report);
  }
}

TEST(VerifyCheckpoint, NamesTheFileAndTheElement) {
  test::DamagedCopy copy;
  copy.set_element("mp_rank_01_000", kQkv, 2 * 8 + 5, 0.75F);
  const CheckpointReport report = verify(copy.root(), without_crcs());
  ASSERT_EQ(report.problems.size(), 1U) << messages(report);
  const Problem& problem = report.problems[0];
  EXPECT_EQ(problem.file, copy.file("mp_rank_01_000"));
  EXPECT_THAT(problem.subject, HasSubstr("decoder.layers.0.self_attention.linear_qkv.weight"));
  EXPECT_EQ(problem.count, 1);
}

TEST(VerifyCheckpoint, DamagedBytesAreReportedOnce) {
  test::DamagedCopy copy;
  copy.set_element("mp_rank_01_000", kNorm, 3, NAN);
  const CheckpointReport report = verify(copy.root());
  EXPECT_EQ(checks(report), std::set<std::string>{"crc"}) << messages(report);
  EXPECT_EQ(report.problems.size(), 1U) << messages(report);
}

TEST(VerifyCheckpoint, ExchangedRanksAreNamedWithoutWhatTheyExplain) {
  test::DamagedCopy copy;
  const std::string away = copy.root() + "/away";
  fs::rename(copy.file("mp_rank_00_000"), away);
  fs::rename(copy.file("mp_rank_01_000"), copy.file("mp_rank_00_000"));
  fs::rename(away, copy.file("mp_rank_01_000"));
  const CheckpointReport report = verify(copy.root());
  EXPECT_THAT(messages(report), HasSubstr("exchanged"));
  EXPECT_FALSE(checks(report).contains("replicas")) << messages(report);
}

TEST(VerifyCheckpoint, ALostRankDoesNotHideWhatElseIsWrong) {
  test::DamagedCopy copy;
  fs::remove(copy.file("mp_rank_01_001"));
  copy.set_element("mp_rank_00_000", kSquare, 0, NAN);
  const CheckpointReport report = verify(copy.root(), without_crcs());
  EXPECT_EQ(checks(report), (std::set<std::string>{"rank_files", "not_finite"}))
      << messages(report);
}

TEST(VerifyCheckpoint, NanMayBeAllowed) {
  test::DamagedCopy copy;
  copy.set_element("mp_rank_00_000", kMoment, 0, NAN);
  VerifyCheckpointOptions options = without_crcs();
  options.allow_nan = true;
  EXPECT_THAT(messages(verify(copy.root(), options)), IsEmpty());
}

TEST(VerifyCheckpoint, NegativeSecondMomentsAreNoted) {
  test::DamagedCopy copy;
  copy.set_element("mp_rank_00_000", kSquare, 0, -1.0F);
  const CheckpointReport report = verify(copy.root(), without_crcs());
  EXPECT_THAT(messages(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains(HasSubstr("exp_avg_sq")));
}

TEST(VerifyCheckpoint, AVocabularyLargerThanTheTableIsRefused) {
  VerifyCheckpointOptions options;
  options.vocab_size = 32;
  EXPECT_TRUE(verify(test::core_checkpoint("tp2pp2/ranks"), options).ok());
  options.vocab_size = 33;
  EXPECT_EQ(checks(verify(test::core_checkpoint("tp2pp2/ranks"), options)),
            std::set<std::string>{"sizes"});
}

TEST(VerifyCheckpoint, TheDistributedOptimizerNeedsItsFile) {
  test::DamagedCopy copy("distopt_tp2_dp2/ranks");
  const std::string buffers = copy.iteration() + "/mp_rank_01/distrib_optim.pt";
  fs::resize_file(buffers, fs::file_size(buffers) / 2);
  EXPECT_EQ(checks(verify(copy.root())), std::set<std::string>{"file"});
  fs::remove(buffers);
  const CheckpointReport report = verify(copy.root());
  EXPECT_EQ(checks(report), std::set<std::string>{"distributed_optimizer"});
  ASSERT_FALSE(report.problems.empty());
  EXPECT_EQ(report.problems[0].file, buffers);
}

TEST(VerifyCheckpoint, WhatIsNoCheckpointIsAnError) {
  const test::TempFolder folder;
  EXPECT_FALSE(verify_checkpoint(folder.path(), {}).has_value());
  const Result<CheckpointReport> missing = verify_checkpoint(folder.path("none"), {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace meg::checkpoint
