#include "libmeg/samples/cache/gpt_index_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "libmeg/numpy/npy.h"
#include "libmeg/samples/internal/gpt_index_builder.h"
#include "tests/dataset/dataset_bytes.h"
#include "tests/small_filesystem.h"
#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSeed = 1234;

/// The sequences from 10 on of a dataset, for three epochs, the last of which is apart.
class Part {
 public:
  explicit Part(std::string_view version, int64_t sequences = 1000)
      : range_{.begin = 10, .end = 10 + sequences} {
    std::mt19937 random(1);
    std::vector<int32_t> lengths(static_cast<size_t>(sequences) + 20);
    for (int32_t& length : lengths) length = static_cast<int32_t>(random() % 100);
    std::vector<int64_t> documents(lengths.size() + 1);
    std::iota(documents.begin(), documents.end(), int64_t{0});
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    test::write_dataset(folder_.path("data"), test::index_fields(8, lengths, documents).bytes(),
                        std::string(2 * static_cast<size_t>(tokens), 'x'));
    dataset_ = *dataset::IndexedDataset::open(folder_.path("data"));

    GptIndexRequest request;
    request.sequences = sequences;
    request.tokens =
        std::accumulate(lengths.begin() + 10, lengths.begin() + range_.end, int64_t{0});
    request.sequence_length = 16;
    request.samples = request.tokens / 16 * 2 + 5;
    plan_ = *plan_gpt_index(request, *megatron::parse_megatron_version(version));
    EXPECT_TRUE(plan_.samples_before_last_epoch.has_value());
  }

  Status write(const GptIndexPaths& paths) const {
    MEG_ASSIGN_OR_RETURN(std::vector<io::AtomicFile> files,
                         write_gpt_index_files(plan_, dataset_, range_, kSeed, paths));
    io::AtomicFile* const all[] = {&files[0], &files[1], &files[2]};
    return io::AtomicFile::commit_all(all, io::AtomicFile::Flush::kFiles);
  }

  template <class Row>
  void expect_equal(const GptIndexPaths& paths) const;

 private:
  test::TempFolder folder_;
  dataset::IndexedDataset dataset_;
  dataset::SequenceRange range_;
  GptIndexPlan plan_;
};

GptIndexPaths paths_in(const std::string& folder) {
  return {folder + "/document.npy", folder + "/sample.npy", folder + "/shuffle.npy"};
}

template <class T>
std::string npy_bytes(const std::vector<T>& values, const std::vector<int64_t>& shape) {
  return *numpy::npy_header(dtype_of<T>(), shape) + test::bytes_string(values);
}

/// Against what the builders give, one after another.
template <class Row>
void Part::expect_equal(const GptIndexPaths& paths) const {
  numpy::RandomState random(kSeed);
  std::vector<int32_t> documents(static_cast<size_t>(plan_.documents()));
  ASSERT_TRUE(build_document_index(plan_, range_, random, documents).ok());
  EXPECT_TRUE(test::read_file(paths.document_index) == npy_bytes(documents, {plan_.documents()}));

  std::vector<Row> rows;
  const SampleRowSink<Row> sink = [&rows](std::span<const Row> some) {
    rows.insert(rows.end(), some.begin(), some.end());
    return Status();
  };
  ASSERT_TRUE(build_sample_index<Row>(plan_, dataset_.sequence_lengths(), documents, sink).ok());
  EXPECT_TRUE(test::read_file(paths.sample_index) == npy_bytes(rows, {plan_.samples + 1, 2}));

  std::vector<uint32_t> shuffle(static_cast<size_t>(plan_.samples));
  ASSERT_TRUE(build_shuffle_index<uint32_t>(plan_, random, shuffle).ok());
  EXPECT_TRUE(test::read_file(paths.shuffle_index) == npy_bytes(shuffle, {plan_.samples}));
}

TEST(GptIndexFilesTest, HoldTheThreeIndices) {
  const test::TempFolder folder;
  const GptIndexPaths paths = paths_in(folder.path("made/here"));
  const Part narrow("core_v0.19.0");
  ASSERT_TRUE(narrow.write(paths).ok());
  narrow.expect_equal<int32_t>(paths);
  const Part wide("core_v0.9.0");
  ASSERT_TRUE(wide.write(paths).ok());
  wide.expect_equal<int64_t>(paths);
}

TEST(GptIndexFilesTest, SayWhichFileCannotBeCreated) {
  const test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  const Status status = Part("core_v0.19.0").write(paths_in(folder.path("file/below")));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("file/below"));
}

TEST(GptIndexFilesTest, NoneAppearsOnAFullDisk) {
  const test::TempFolder folder;
  const Part part("core_v0.19.0", 50'000);
  const bool ran = test::in_small_filesystem(folder.path(), "size=1m", [&]() -> std::string {
    const Status status = part.write(paths_in(folder.path()));
    if (status.code() != StatusCode::kResourceExhausted) return "not named: " + status.message();
    if (folder.file_count() != 0) return "files are left";
    return status.message().ends_with("No space left on device") ? "" : status.message();
  });
  if (!ran) GTEST_SKIP() << "may not mount a filesystem here";
}

}  // namespace
}  // namespace meg::samples
