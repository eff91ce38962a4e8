#include "libmeg/checkpoint/verify/internal/tensor_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "libmeg/base/float_convert.h"
#include "tests/checkpoint/transfer/transfer_files.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using test::MadeTensor;
using testing::ElementsAre;
using testing::IsEmpty;

/// More than one task's share of elements, and no multiple of a tile's.
constexpr int64_t kRows = 1201;
constexpr int64_t kColumns = 7001;

std::vector<float> ramp(int64_t elements) {
  std::vector<float> values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) * 0.001f;
  return values;
}

MadeTensor made(const std::vector<float>& values, std::vector<int64_t> shape) {
  MadeTensor tensor{.storage = {}, .shape = std::move(shape), .strides = {}};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.storage.assign(bytes.begin(), bytes.end());
  return tensor;
}

ScannedTensor scanned(const std::shared_ptr<const TorchFile>& file, size_t index,
                      std::string name) {
  return {.file = file, .view = test::made_view(*file, index), .name = std::move(name)};
}

std::vector<Problem> scan(const std::vector<ScanGroup>& groups,
                          const std::shared_ptr<const TorchFile>& file,
                          const TensorScanOptions& options = {}) {
  const std::vector<std::shared_ptr<const TorchFile>> files = {file};
  auto problems = scan_tensors(groups, files, options);
  EXPECT_TRUE(problems.has_value());
  return problems.has_value() ? *problems : std::vector<Problem>();
}

ScanGroup equal_pair(const std::shared_ptr<const TorchFile>& file) {
  return {.tensors = {scanned(file, 0, "first"), scanned(file, 1, "second")},
          .relations = {{.kind = TensorRelation::Kind::kEqual,
                         .first = 0,
                         .second = 1,
                         .check = CheckpointCheck::kReplicas,
                         .likely_cause = ""}}};
}

TEST(TensorScan, FindsNothingInEqualFiniteTensorsOfManyTasks) {
  const test::TempFolder folder;
  const MadeTensor tensor = made(ramp(kRows * kColumns), {kRows, kColumns});
  const auto file = test::make_source(folder.path("a.pt"), {tensor, tensor});
  for (const int workers : {1, 3}) {
    EXPECT_THAT(scan({equal_pair(file)}, file, {.workers = workers}), IsEmpty());
  }
}

TEST(TensorScan, NamesTheFirstElementInALaterTask) {
  const test::TempFolder folder;
  std::vector<float> values = ramp(kRows * kColumns);
  const MadeTensor first = made(values, {kRows, kColumns});
  values[1199 * kColumns + 17] = std::numeric_limits<float>::infinity();
  values[1199 * kColumns + 18] = 77;
  const auto file =
      test::make_source(folder.path("a.pt"), {first, made(values, {kRows, kColumns})});
  const auto problems = scan({equal_pair(file)}, file);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].check, CheckpointCheck::kNotFinite);
  EXPECT_EQ(problems[0].subject, "second");
  EXPECT_THAT(problems[0].index, ElementsAre(1199, 17));
  EXPECT_EQ(problems[0].found, "inf");
  EXPECT_EQ(problems[1].check, CheckpointCheck::kReplicas);
  EXPECT_THAT(problems[1].index, ElementsAre(1199, 17));
  EXPECT_EQ(problems[1].count, 2);
}

TEST(TensorScan, SumsTheCrcOverAllTasksAndJudgesDamageNoFurther) {
  const test::TempFolder folder;
  const MadeTensor tensor = made(ramp(kRows * kColumns), {kRows, kColumns});
  const auto file = test::make_source(folder.path("a.pt"), {tensor, tensor});
  const uint64_t byte = 4 * 1200 * kColumns;
  test::flip_bit(*file, test::made_view(*file, 1).storage, byte);
  const auto problems = scan({equal_pair(file)}, file);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].check, CheckpointCheck::kCrc);
  EXPECT_EQ(problems[0].subject, "second");
  const auto unchecked = scan({equal_pair(file)}, file, {.check_crcs = false});
  ASSERT_EQ(unchecked.size(), 1u);
  EXPECT_EQ(unchecked[0].check, CheckpointCheck::kReplicas);
}

TEST(TensorScan, ReadsStoragesThatNoTensorCoversForTheirCrc) {
  const test::TempFolder folder;
  const MadeTensor tensor = made(ramp(1000), {1000});
  MadeTensor part = tensor;
  part.shape = {10};
  part.offset = 5;
  part.strides = {2};
  const auto file = test::make_source(folder.path("a.pt"), {tensor, part});
  test::flip_bit(*file, test::made_view(*file, 1).storage, 3999);
  const ScanGroup group{.tensors = {scanned(file, 1, "part")}, .relations = {}};
  const auto problems = scan({group}, file);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].check, CheckpointCheck::kCrc);
  EXPECT_EQ(problems[0].subject.substr(0, 5), "data/");
}

TEST(TensorScan, HoldsWeightsToTheirRoundedMasters) {
  const test::TempFolder folder;
  const std::vector<float> masters = ramp(5000);
  MadeTensor weight{.dtype = DType::kBFloat16,
                    .storage = std::vector<std::byte>(10000),
                    .shape = {5000},
                    .strides = {}};
  ASSERT_TRUE(convert_floats(DType::kFloat32, std::as_bytes(std::span(masters)), DType::kBFloat16,
                             weight.storage)
                  .ok());
  MadeTensor wrong = weight;
  wrong.storage[2 * 4321] ^= std::byte{1};
  const auto file = test::make_source(folder.path("a.pt"), {made(masters, {5000}), weight, wrong});
  const ScanGroup group{.tensors = {scanned(file, 0, "master"), scanned(file, 1, "weight"),
                                    scanned(file, 2, "wrong")},
                        .relations = {{.kind = TensorRelation::Kind::kRounded,
                                       .first = 0,
                                       .second = 1,
                                       .check = CheckpointCheck::kMasters,
                                       .likely_cause = ""},
                                      {.kind = TensorRelation::Kind::kRounded,
                                       .first = 0,
                                       .second = 2,
                                       .check = CheckpointCheck::kMasters,
                                       .likely_cause = ""}}};
  const auto problems = scan({group}, file);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].subject, "wrong");
  EXPECT_THAT(problems[0].index, ElementsAre(4321));
}

TEST(TensorScan, LooksForNegativeElementsWhereAsked) {
  const test::TempFolder folder;
  std::vector<float> values = ramp(100);
  values[50] = -1e-20f;
  values[51] = -0.0f;
  const auto file = test::make_source(folder.path("a.pt"), {made(values, {10, 10})});
  ScanGroup group{.tensors = {scanned(file, 0, "exp_avg_sq")}, .relations = {}};
  EXPECT_THAT(scan({group}, file), IsEmpty());
  group.tensors[0].non_negative = true;
  const auto problems = scan({group}, file);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].index, ElementsAre(5, 0));
  EXPECT_EQ(problems[0].count, 1);
}

TEST(TensorScan, EndsWhereTheCallerAsks) {
  const test::TempFolder folder;
  const auto file = test::make_source(folder.path("a.pt"), {made(ramp(1000), {1000})});
  const std::vector<ScanGroup> groups = {{.tensors = {scanned(file, 0, "a")}, .relations = {}}};
  const auto stop = [](const Progress& progress) { return progress.bytes < 0; };
  const auto problems = scan_tensors(groups, {}, {.progress = stop});
  ASSERT_FALSE(problems.has_value());
  EXPECT_EQ(problems.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace meg::checkpoint
