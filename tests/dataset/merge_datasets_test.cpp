#include "libmeg/dataset/merge_datasets.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/internal/tntidx_format.h"
#include "libmeg/dataset/verify_dataset.h"
#include "tests/dataset/dataset_bytes.h"

namespace meg::dataset {
namespace {

using test::bytes_string;
using test::index_fields;
using test::read_file;
using test::TempFolder;
using test::write_dataset;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint8_t kInt8Code = 2, kInt32Code = 4, kFloat32Code = 7, kUint16Code = 8;

/// A dataset whose items are 0, 1, 2, ...
void write_counting(const TempFolder& folder, const std::string& name,
                    const std::vector<int32_t>& lengths, const std::vector<int64_t>& documents) {
  std::vector<uint16_t> items;
  for (const int32_t length : lengths) {
    for (int32_t i = 0; i < length; ++i) items.push_back(static_cast<uint16_t>(items.size()));
  }
  write_dataset(folder.path(name), index_fields(kUint16Code, lengths, documents).bytes(),
                bytes_string(items));
}

std::string failure(const std::vector<std::string>& prefixes, const std::string& output,
                    const MergeOptions& options = {}) {
  const auto summary = merge_datasets(prefixes, output, options);
  return summary.has_value() ? "" : summary.error().message();
}

TEST(MergeDatasets, JoinsEmptyDocumentsAndEmptySets) {
  const TempFolder folder;
  write_counting(folder, "a", {2, 1}, {0, 0, 2});
  write_counting(folder, "empty", {}, {0});
  write_counting(folder, "b", {3}, {0, 1, 1});
  const auto summary =
      merge_datasets({folder.path("a.idx"), folder.path("empty"), folder.path("b.bin")},
                     folder.path("all.bin"), {});
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->documents, 4);
  EXPECT_EQ(summary->items, 6);
  EXPECT_EQ(read_file(folder.path("all.idx")),
            index_fields(kUint16Code, {2, 1, 3}, {0, 0, 2, 3, 3}).bytes());
  EXPECT_EQ(read_file(folder.path("all.bin")),
            read_file(folder.path("a.bin")) + read_file(folder.path("b.bin")));
}

TEST(MergeDatasets, ListsAFolderInTheOrderOfBytes) {
  const TempFolder folder;
  for (const char* const name : {"b_10", "b_9", "B", "a.x", "a"})
    write_counting(folder, name, {1}, {0, 1});
  std::filesystem::create_directory(folder.path("sub"));
  test::write_file(folder.path("a.provenance"), "beside a pair");
  EXPECT_THAT(*dataset_prefixes_in(folder.path() + "/"),
              ElementsAre(folder.path("B"), folder.path("a"), folder.path("a.x"),
                          folder.path("b_10"), folder.path("b_9")));
  test::write_file(folder.path("notes.txt"), "");
  EXPECT_THAT(dataset_prefixes_in(folder.path()).error().message(),
              HasSubstr("notes.bin: expected this file beside "));
  EXPECT_EQ(dataset_prefixes_in(folder.path("sub")).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(dataset_prefixes_in(folder.path("none")).error().code(), StatusCode::kNotFound);
}

TEST(MergeDatasets, WantsAllShardsOfADataset) {
  const TempFolder folder;
  std::vector<std::string> shards;
  for (const char* const name :
       {"x_shard00000of00003_text_document", "x_shard00001of00003_text_document",
        "x_shard00002of00003_text_document"}) {
    write_counting(folder, name, {1}, {0, 1});
    shards.push_back(folder.path(name));
  }
  EXPECT_EQ(failure(shards, folder.path("out")), "");
  shards.erase(shards.begin() + 1);
  EXPECT_THAT(
      failure(shards, folder.path("out")),
      HasSubstr("x_shard00001of00003_text_document: expected all shards of this dataset, found 2"));
}

TEST(MergeDatasets, RefusesTheShardsOfTwoRuns) {
  const TempFolder folder;
  std::vector<std::string> shards;
  for (const char* const name :
       {"x_shard00000of00002_text_document", "x_shard00001of00002_text_document",
        "x_shard00000of00001_text_document"}) {
    write_counting(folder, name, {1}, {0, 1});
    shards.push_back(folder.path(name));
  }
  EXPECT_THAT(failure(shards, folder.path("out")),
              HasSubstr("x_shard*of00001_text_document: expected the shards of one run, also found "
                        "those of 00002"));
  shards.pop_back();
  EXPECT_EQ(failure(shards, folder.path("out")), "");
}

TEST(MergeDatasets, RefusesAShardTwiceAndShardsOfTwoKeys) {
  const TempFolder folder;
  const auto shard = [&](const std::string& name) {
    write_counting(folder, "x_shard" + name, {1}, {0, 1});
    return folder.path("x_shard" + name);
  };
  const std::string first = shard("00000of00002_text_document");
  const std::string second = shard("00001of00002_text_document");
  const std::string title = shard("00000of00002_title_document");
  const std::string out = folder.path("out");
  EXPECT_THAT(failure({first, second, first}, out),
              HasSubstr(first + ": expected each shard once, found it twice"));
  EXPECT_THAT(failure({first, title, second, shard("00001of00002_title_document")}, out),
              HasSubstr("x_shard*: expected the shards of one key, found *_text_document and "
                        "*_title_document"));
  EXPECT_FALSE(std::filesystem::exists(out + ".bin"));
}

TEST(MergeDatasets, RefusesBothFilesOfADataset) {
  const TempFolder folder;
  write_counting(folder, "a", {2}, {0, 1});
  const std::string a = folder.path("a"), out = folder.path("out");
  EXPECT_THAT(failure({a + ".bin", a + ".idx"}, out),
              HasSubstr(a + ".idx: expected each dataset once, also found this one as " + a +
                        ".bin: give prefixes or their folder"));
  EXPECT_THAT(failure({a, a + ".bin"}, out), HasSubstr("expected each dataset once"));
  // Twice on purpose.
  EXPECT_EQ(failure({a, a}, out), "");
  EXPECT_EQ(read_file(out + ".bin"), read_file(a + ".bin") + read_file(a + ".bin"));
}

TEST(MergeDatasets, TellsTheShardsOfALongerKey) {
  const TempFolder folder;
  const std::vector<std::string> all = {"in/x_shard00000of00001_full_text_document",
                                        "in/x_shard00000of00001_text_document",
                                        "in/y_text_document", "in/y_text_sentence2"};
  EXPECT_THAT(*dataset_prefixes_of_key("in", all, "text"), ElementsAre(all[1], all[2]));
  EXPECT_THAT(*dataset_prefixes_of_key("in", all, "full_text"), ElementsAre(all[0]));
  EXPECT_THAT(dataset_prefixes_of_key("in", all, "body").error().message(),
              HasSubstr("in: expected datasets *_body_document or *_body_sentence, found neither"));
}

TEST(MergeDatasets, WidensOnlyWhereEveryValueFits) {
  const TempFolder folder;
  write_dataset(folder.path("u16"), index_fields(kUint16Code, {2}, {0, 1}).bytes(),
                bytes_string<uint16_t>({1, 65535}));
  write_dataset(folder.path("i8"), index_fields(kInt8Code, {2}, {0, 1}).bytes(),
                bytes_string<int8_t>({-128, 5}));
  write_dataset(folder.path("f32"), index_fields(kFloat32Code, {1}, {0, 1}).bytes(),
                bytes_string<float>({0.5F}));
  const std::string u16 = folder.path("u16"), i8 = folder.path("i8"), out = folder.path("out");
  EXPECT_THAT(failure({u16, i8}, out),
              HasSubstr("expected dtype uint16 as in " + u16 + ", found int8"));
  EXPECT_THAT(failure({u16, i8}, out, {.dtype = DType::kUint16}),
              HasSubstr("dtype uint16 cannot hold all values of its int8"));
  EXPECT_THAT(failure({u16, folder.path("f32")}, out, {.dtype = DType::kFloat64}),
              HasSubstr("cannot hold"));
  EXPECT_FALSE(std::filesystem::exists(out + ".bin"));
  ASSERT_EQ(failure({u16, i8}, out, {.dtype = DType::kInt32}), "");
  EXPECT_EQ(read_file(out + ".bin"), bytes_string<int32_t>({1, 65535, -128, 5}));
  EXPECT_EQ(read_file(out + ".idx"), index_fields(kInt32Code, {2, 2}, {0, 1, 2}).bytes());
}

TEST(MergeDatasets, WidensMoreThanItsBuffersHold) {
  const TempFolder folder;
  std::vector<uint16_t> items(700'001);
  for (size_t i = 0; i < items.size(); ++i) items[i] = static_cast<uint16_t>(i * 7);
  write_dataset(folder.path("in"), index_fields(kUint16Code, {700'000, 1}, {0, 2}).bytes(),
                bytes_string(items));
  ASSERT_EQ(failure({folder.path("in")}, folder.path("out"), {.dtype = DType::kInt32}), "");
  EXPECT_EQ(read_file(folder.path("out.bin")),
            bytes_string(std::vector<int32_t>(items.begin(), items.end())));
}

TEST(MergeDatasets, GathersWhatAViewPointsTo) {
  const TempFolder folder;
  test::IndexFields view = index_fields(kUint16Code, {2, 1, 2}, {0, 1, 3});
  view.pointers = {4, 0, 4};  // reordered, repeated, byte 2 left out
  write_dataset(folder.path("view"), view.bytes(), bytes_string<uint16_t>({10, 11, 12, 13}));
  test::IndexFields slice = index_fields(kUint16Code, {1}, {0, 1});
  write_dataset(folder.path("slice"), slice.bytes(), bytes_string<uint16_t>({7, 8, 9}));
  const auto summary =
      merge_datasets({folder.path("view"), folder.path("slice")}, folder.path("out"), {});
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(read_file(folder.path("out.bin")), bytes_string<uint16_t>({12, 13, 10, 12, 13, 7}));
  EXPECT_EQ(read_file(folder.path("out.idx")),
            index_fields(kUint16Code, {2, 1, 2, 1}, {0, 1, 3, 4}).bytes());
  EXPECT_THAT(summary->notes, ElementsAre(HasSubstr("view: a view"), HasSubstr("slice: a view")));
}

TEST(MergeDatasets, RefusesPointersOutsideOfBin) {
  const TempFolder folder;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t pointer : {int64_t{-2}, int64_t{1}, int64_t{6}, kMost - 1, kMost}) {
    test::IndexFields fields = index_fields(kUint16Code, {1, 1, 1}, {0, 3});
    fields.pointers[1] = pointer;
    write_dataset(folder.path("bad"), fields.bytes(), "aabbcc");
    EXPECT_THAT(failure({folder.path("bad")}, folder.path("out")),
                HasSubstr(pointer % 2 == 0 ? "sequence 1: 1 items"
                                           : "sequence 1: pointer: expected a multiple of 2"));
    EXPECT_FALSE(std::filesystem::exists(folder.path("out.bin")));
  }
}

TEST(MergeDatasets, RefusesDamageAndItself) {
  const TempFolder folder;
  test::IndexFields fields = index_fields(kUint16Code, {-1, 1}, {0, 2});
  write_dataset(folder.path("negative"), fields.bytes(), "");
  EXPECT_NE(failure({folder.path("negative")}, folder.path("out")), "");
  write_counting(folder, "a", {2}, {0, 1});
  EXPECT_THAT(failure({folder.path("a")}, folder.path("a.idx")),
              HasSubstr("expected another dataset than the source"));
  std::filesystem::create_symlink(folder.path("a.idx"), folder.path("linked.idx"));
  EXPECT_THAT(failure({folder.path("a")}, folder.path("linked")),
              HasSubstr("expected another dataset than the source"));
  EXPECT_THAT(failure({}, folder.path("out")), HasSubstr("at least one dataset"));
  EXPECT_THAT(failure({folder.path("a")}, folder.path("out"), {.multimodal = true}),
              HasSubstr("with modes"));
  EXPECT_THAT(failure({folder.path("a")}, folder.path("out"),
                      {.progress = [](const Progress&) { return false; }}),
              HasSubstr("interrupted"));
}

TEST(MergeDatasets, RefusesDamagedTntIdx) {
  const TempFolder folder;
  const std::string magic(kTntidxMagic);
  // Two items of int32, [1] and [2 3], in one document.
  const std::vector<int64_t> fields = {1,
                                       4,
                                       4,
                                       2,
                                       2,
                                       2,
                                       /*dims*/ 0,
                                       1,
                                       2,
                                       /*data*/ 0,
                                       1,
                                       3,
                                       /*sizes*/ 1,
                                       2,
                                       /*documents*/ 0,
                                       2};
  const std::string bin = bytes_string<int32_t>({1, 2, 3});
  const std::string whole = magic + bytes_string(fields);
  const std::string old = folder.path("old"), out = folder.path("out");
  write_dataset(old, whole, bin);
  ASSERT_EQ(failure({old, old}, out), "");
  EXPECT_EQ(read_file(out + ".idx"),
            magic + bytes_string<int64_t>(
                        {1, 4, 4, 4, 4, 3, 0, 1, 2, 3, 4, 0, 1, 3, 4, 6, 1, 2, 1, 2, 0, 2, 4}));
  EXPECT_EQ(read_file(out + ".bin"), bin + bin);
  EXPECT_THAT(failure({old}, out, {.dtype = DType::kInt64}), HasSubstr("dtype is not possible"));
  for (size_t size = 0; size < whole.size(); ++size) {
    write_dataset(old, whole.substr(0, size), bin);
    EXPECT_NE(failure({old}, out), "") << size;
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    for (const int64_t wrong : {int64_t{-1}, int64_t{5}, std::numeric_limits<int64_t>::max()}) {
      std::vector<int64_t> damaged = fields;
      damaged[i] = wrong;
      write_dataset(old, magic + bytes_string(damaged), bin);
      EXPECT_NE(failure({old}, out), "") << i << " " << wrong;
    }
  }
}

/// 3 x 14e9 items of one byte, none of which takes room on the disk.
TEST(MergeDatasets, CountsBeyond40BillionTokens) {
  const TempFolder folder;
  const std::vector<int32_t> lengths(7, 2'000'000'000);
  const int64_t bytes = 14'000'000'000;
  std::vector<std::string> prefixes;
  for (const char* const name : {"a", "b", "c"}) {
    write_dataset(folder.path(name), index_fields(1, lengths, {0, 3, 7}).bytes(), "");
    ASSERT_EQ(::truncate(folder.path(std::string(name) + ".bin").c_str(), bytes), 0);
    prefixes.push_back(folder.path(name));
  }
  const auto summary = merge_datasets(prefixes, folder.path("out"), {});
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->items, 3 * bytes);
  EXPECT_EQ(std::filesystem::file_size(folder.path("out.bin")), static_cast<uintmax_t>(3 * bytes));
  const auto set = IndexedDataset::open(folder.path("out"));
  EXPECT_EQ(set->item_count(), 3 * bytes);
  EXPECT_EQ(set->sequence_pointers().back(), 3 * bytes - lengths[0]);
  EXPECT_TRUE(verify_dataset(folder.path("out"), {})->ok());
}

}  // namespace
}  // namespace meg::dataset
