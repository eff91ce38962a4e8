#include "libmeg/dataset/samples/gpt_index_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "libmeg/core/npy.h"
#include "libmeg/dataset/samples/gpt_index_builder.h"
#include "tests/small_filesystem.h"
#include "tests/temp_folder.h"

namespace meg {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSeed = 1234;

struct Case {
  std::vector<int32_t> lengths;
  SequenceRange range;
  GptIndexPlan plan;

  LittleEndianArray<int32_t> array() const {
    return LittleEndianArray<int32_t>(std::as_bytes(std::span(lengths)));
  }
};

/// A part of a dataset, for three epochs, the last of which is apart.
Case make_case(std::string_view version, int64_t sequences = 1000) {
  Case made;
  std::mt19937 random(1);
  for (int64_t i = 0; i < sequences + 20; ++i) {
    made.lengths.push_back(static_cast<int32_t>(random() % 100));
  }
  made.range = {10, 10 + sequences};
  GptIndexRequest request;
  request.sequences = sequences;
  for (int64_t i = made.range.begin; i < made.range.end; ++i) {
    request.tokens += made.lengths[static_cast<size_t>(i)];
  }
  request.sequence_length = 16;
  request.samples = request.tokens / 16 * 2 + 5;
  made.plan = *plan_gpt_index(request, *parse_megatron_version(version));
  EXPECT_TRUE(made.plan.samples_before_last_epoch.has_value());
  return made;
}

GptIndexPaths paths_in(const std::string& folder) {
  return {folder + "/document.npy", folder + "/sample.npy", folder + "/shuffle.npy"};
}

template <class T>
std::string npy_bytes(const std::vector<T>& values, const std::vector<int64_t>& shape) {
  return *npy_header(dtype_of<T>(), shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class Row>
void expect_files_of(const Case& made) {
  const test::TempFolder folder;
  const GptIndexPaths paths = paths_in(folder.path("made/here"));
  ASSERT_TRUE(write_gpt_index_files(made.plan, made.array(), made.range, kSeed, paths).ok());

  RandomState random(kSeed);
  std::vector<int32_t> documents(static_cast<size_t>(made.plan.documents()));
  build_document_index(made.plan, made.range, random, documents);
  EXPECT_TRUE(test::read_file(paths.document_index) ==
              npy_bytes(documents, {made.plan.documents()}));

  std::vector<Row> rows;
  const SampleRowSink<Row> sink = [&rows](std::span<const Row> some) {
    rows.insert(rows.end(), some.begin(), some.end());
    return Status();
  };
  ASSERT_TRUE(build_sample_index<Row>(made.plan, made.array(), documents, sink).ok());
  EXPECT_TRUE(test::read_file(paths.sample_index) == npy_bytes(rows, {made.plan.samples + 1, 2}));

  std::vector<uint32_t> shuffle(static_cast<size_t>(made.plan.samples));
  build_shuffle_index<uint32_t>(made.plan, random, shuffle);
  EXPECT_TRUE(test::read_file(paths.shuffle_index) == npy_bytes(shuffle, {made.plan.samples}));
}

TEST(GptIndexFilesTest, HoldTheThreeIndices) {
  expect_files_of<int32_t>(make_case("core_v0.19.0"));
  expect_files_of<int64_t>(make_case("core_v0.9.0"));
}

TEST(GptIndexFilesTest, SayWhichFileCannotBeCreated) {
  const test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  const Case made = make_case("core_v0.19.0");
  const Status status = write_gpt_index_files(made.plan, made.array(), made.range, kSeed,
                                              paths_in(folder.path("file/below")));
  EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("file/below"));
}

TEST(GptIndexFilesTest, NoneAppearsOnAFullDisk) {
  const test::TempFolder folder;
  const Case made = make_case("core_v0.19.0", 50'000);
  const bool ran = test::in_small_filesystem(folder.path(), "size=1m", [&]() -> std::string {
    const Status status =
        write_gpt_index_files(made.plan, made.array(), made.range, kSeed, paths_in(folder.path()));
    if (status.code() != StatusCode::kResourceExhausted) return "not named: " + status.message();
    if (folder.file_count() != 0) return "files are left";
    return status.message().ends_with("No space left on device") ? "" : status.message();
  });
  if (!ran) GTEST_SKIP() << "may not mount a filesystem here";
}

}  // namespace
}  // namespace meg
