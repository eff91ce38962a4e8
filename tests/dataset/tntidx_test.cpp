// TNTIDX, the format of --dataset-impl lazy and cached: written, read, verified, merged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/dataset/dataset_summary.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/merge_datasets.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/dataset/provenance_writer.h"
#include "libmeg/dataset/verify_dataset.h"
#include "tests/dataset/dataset_bytes.h"
#include "tests/temp_folder.h"

namespace meg::dataset {
namespace {

using test::bytes_of;
using test::bytes_string;
using test::read_file;
using test::TempFolder;
using test::tntidx_fields;
using test::TntidxFields;
using test::write_dataset;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// Five sequences (the third empty) of 2, 3, 0, 1 and 4 items in four documents (the third empty).
TntidxFields small_fields() { return tntidx_fields({2, 3, 0, 1, 4}, {0, 2, 4, 4, 5}); }

const std::string kSmallBin = bytes_string<int32_t>({1, 2, 3, 4, 9, 9, 5, 6, 7, 9});

IndexedDatasetBuilder create(const std::string& prefix, IndexedDatasetBuilder::Options options) {
  options.format = IndexFormat::kTntidx;
  auto builder = IndexedDatasetBuilder::create(prefix, options);
  EXPECT_TRUE(builder.has_value()) << builder.error().message();
  return std::move(builder).value();
}

/// Adds the documents [1 2 3] [4] and one without sequences.
void add_two_documents(IndexedDatasetBuilder& builder) {
  ASSERT_TRUE(builder.add_item(bytes_of<int32_t>({1, 2, 3})).ok());
  ASSERT_TRUE(builder.add_item(bytes_of<int32_t>({4})).ok());
  ASSERT_TRUE(builder.end_document().ok());
  ASSERT_TRUE(builder.end_document().ok());
}

TEST(TntidxBuilder, WritesHeaderOffsetsSizesAndDocumentIndices) {
  const TempFolder folder;
  IndexedDatasetBuilder builder = create(folder.path("set"), {});
  add_two_documents(builder);
  ASSERT_TRUE(builder.finish().ok());
  EXPECT_EQ(read_file(folder.path("set.bin")), bytes_string<int32_t>({1, 2, 3, 4}));
  EXPECT_EQ(read_file(folder.path("set.idx")),
            std::string("TNTIDX\0\0", 8) +
                bytes_string<int64_t>({1, 4, 4, 2, 2, 3,  // version, int32, 4 bytes, N, M, D
                                       0, 1, 2,           // dim offsets
                                       0, 3, 4,           // data offsets
                                       3, 1,              // sizes
                                       0, 2, 2}));        // document indices
  EXPECT_EQ(folder.file_count(), 2);
}

TEST(TntidxBuilder, EmptySetIs80Bytes) {
  const TempFolder folder;
  IndexedDatasetBuilder builder = create(folder.path("set"), {});
  ASSERT_TRUE(builder.finish().ok());
  EXPECT_EQ(read_file(folder.path("set.idx")), tntidx_fields({}, {0}).bytes());
  EXPECT_EQ(read_file(folder.path("set.idx")).size(), 80U);
  EXPECT_TRUE(verify_dataset(folder.path("set"), {})->ok());
}

TEST(TntidxBuilder, RefusesWhatTheFormatLacks) {
  const TempFolder folder;
  const auto error = [&](IndexedDatasetBuilder::Options options) {
    options.format = IndexFormat::kTntidx;
    return IndexedDatasetBuilder::create(folder.path("set"), options).error().message();
  };
  EXPECT_THAT(error({.dtype = DType::kUint16}), HasSubstr("TNTIDX datasets cannot hold uint16"));
  EXPECT_THAT(error({.multimodal = true}), HasSubstr("TNTIDX has no sequence modes"));
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(TntidxBuilder, AppendsDatasetsOfBothFormats) {
  const TempFolder folder;
  write_dataset(folder.path("old"), small_fields().bytes(), kSmallBin);
  write_dataset(folder.path("new"), test::index_fields(4, {2}, {0, 1}).bytes(),
                bytes_string<int32_t>({7, 8}));
  IndexedDatasetBuilder builder = create(folder.path("set"), {});
  IndexedDatasetBuilder part = create(folder.path("part"), {});
  add_two_documents(part);
  ASSERT_TRUE(builder.add_index(folder.path("old")).ok());
  ASSERT_TRUE(builder.add_index(folder.path("new")).ok());
  ASSERT_TRUE(builder.add_builder(part).ok());
  ASSERT_TRUE(builder.finish().ok());
  EXPECT_EQ(read_file(folder.path("set.idx")),
            tntidx_fields({2, 3, 0, 1, 4, 2, 3, 1}, {0, 2, 4, 4, 5, 6, 8, 8}).bytes());
  EXPECT_EQ(read_file(folder.path("set.bin")),
            kSmallBin + bytes_string<int32_t>({7, 8, 1, 2, 3, 4}));
}

TEST(TntidxBuilder, ResumesAtAMark) {
  const TempFolder folder;
  IndexedDatasetBuilder::Mark mark;
  {
    IndexedDatasetBuilder builder = create(folder.path("set"), {.resume_at = mark});
    add_two_documents(builder);
    mark = builder.mark().value();
    ASSERT_TRUE(builder.add_item(bytes_of<int32_t>({5})).ok());  // after the mark: lost
    ASSERT_TRUE(builder.end_document().ok());
  }
  IndexedDatasetBuilder builder = create(folder.path("set"), {.resume_at = mark});
  ASSERT_TRUE(builder.add_item(bytes_of<int32_t>({6, 7})).ok());
  ASSERT_TRUE(builder.end_document().ok());
  ASSERT_TRUE(builder.finish().ok());
  EXPECT_EQ(read_file(folder.path("set.idx")), tntidx_fields({3, 1, 2}, {0, 2, 2, 3}).bytes());
  EXPECT_EQ(read_file(folder.path("set.bin")), bytes_string<int32_t>({1, 2, 3, 4, 6, 7}));
  EXPECT_EQ(folder.file_count(), 2);
}

/// A process that is killed between writing the index and publishing it may come back either way.
TEST(TntidxBuilder, ResumesOrPublishesOnceTheIndexIsWritten) {
  for (const bool publishes : {false, true}) {
    const TempFolder folder;
    IndexedDatasetBuilder::Mark mark;
    {
      IndexedDatasetBuilder builder = create(folder.path("set"), {.resume_at = mark});
      add_two_documents(builder);
      mark = builder.mark().value();
      IndexedDatasetBuilder* const self = &builder;
      const auto dies = [] { return Status(StatusCode::kCancelled, "killed"); };
      ASSERT_FALSE(IndexedDatasetBuilder::finish_all({&self, 1}, dies).ok());
    }
    if (publishes) {
      const IndexedDatasetBuilder::Finished finished{.prefix = folder.path("set"),
                                                     .format = IndexFormat::kTntidx,
                                                     .dtype = DType::kInt32,
                                                     .mark = mark,
                                                     .tokenizer = std::nullopt};
      const Status status = IndexedDatasetBuilder::publish_all({&finished, 1});
      ASSERT_TRUE(status.ok()) << status.message();
    } else {
      IndexedDatasetBuilder builder = create(folder.path("set"), {.resume_at = mark});
      ASSERT_TRUE(builder.finish().ok());
    }
    EXPECT_EQ(read_file(folder.path("set.idx")), tntidx_fields({3, 1}, {0, 2, 2}).bytes());
    EXPECT_EQ(folder.file_count(), 2) << publishes;
  }
}

class TntidxDatasetTest : public ::testing::Test {
 protected:
  Result<IndexedDataset> open(const std::string& idx, const std::string& bin = kSmallBin,
                              const IndexedDataset::Options& options = {}) {
    const std::string prefix = folder_.path("set");
    write_dataset(prefix, idx, bin);
    return IndexedDataset::open(prefix, options);
  }

  std::string open_error(const TntidxFields& fields, const IndexedDataset::Options& options = {}) {
    const auto dataset = open(fields.bytes(), kSmallBin, options);
    return dataset.has_value() ? "opened" : dataset.error().message();
  }

  TempFolder folder_;
};

TEST_F(TntidxDatasetTest, GivesWhatMmididxGives) {
  const auto dataset = open(small_fields().bytes());
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->format(), IndexFormat::kTntidx);
  EXPECT_EQ(dataset->dtype(), DType::kInt32);
  EXPECT_EQ(dataset->sequence_count(), 5);
  EXPECT_EQ(dataset->document_count(), 4);
  EXPECT_EQ(dataset->item_count(), 10);
  EXPECT_FALSE(dataset->multimodal());
  EXPECT_EQ(dataset->header().size(), 56U);
  EXPECT_EQ(dataset->sequence_lengths()[1], 3);
  EXPECT_EQ(dataset->sequence_pointers()[3], 20);  // 5 items of 4 bytes
  EXPECT_EQ(dataset->document(1)->begin, 2);
  EXPECT_EQ(dataset->document(2)->begin, dataset->document(2)->end);
  EXPECT_THAT(dataset->tokens<int32_t>(1).value(), ElementsAre(3, 4, 9));
  EXPECT_TRUE(dataset->tokens<int32_t>(2)->empty());
  std::vector<int64_t> wide(2);
  ASSERT_TRUE(dataset->copy_tokens(4, 1, wide).ok());
  EXPECT_THAT(wide, ElementsAre(6, 7));
  EXPECT_EQ(summarize_lengths(*dataset)->max, 4);
  std::vector<int32_t> lengths(4);
  EXPECT_THAT(dataset->sequence_lengths().copy(1, lengths), ElementsAre(3, 0, 1, 4));
}

/// Items of 2 x 3, 4 and 1 x 2 x 1 values, in two documents, whose indices count sizes.
TntidxFields shaped_fields() {
  TntidxFields fields;
  fields.item_count = 3;
  fields.size_count = 6;
  fields.document_index_count = 3;
  fields.dim_offsets = {0, 2, 3, 6};
  fields.data_offsets = {0, 6, 10, 12};
  fields.sizes = {2, 3, 4, 1, 2, 1};
  fields.documents = {0, 3, 6};
  return fields;
}

TEST_F(TntidxDatasetTest, FlattensItemsOfSeveralDimensionsWhereAskedTo) {
  const std::string bin = bytes_string<int32_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto set = open(shaped_fields().bytes(), bin, {.flatten = true});
  ASSERT_TRUE(set.has_value()) << set.error().message();
  EXPECT_TRUE(set->flattened());
  EXPECT_EQ(set->sequence_count(), 3);
  EXPECT_EQ(set->item_count(), 12);
  EXPECT_THAT(set->tokens<int32_t>(0).value(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(set->tokens<int32_t>(2).value(), ElementsAre(11, 12));
  EXPECT_THAT(set->shape(0), ElementsAre(2, 3));
  EXPECT_THAT(set->shape(1), ElementsAre(4));
  EXPECT_THAT(set->shape(2), ElementsAre(1, 2, 1));
  EXPECT_EQ(set->document_count(), 2);
  EXPECT_EQ(set->document(0)->end, 2);
  EXPECT_EQ(set->document(1)->end, 3);
  // What has one dimension is what it is without the option.
  const auto plain = open(small_fields().bytes(), kSmallBin, {.flatten = true});
  ASSERT_TRUE(plain.has_value());
  EXPECT_FALSE(plain->flattened());
  EXPECT_THAT(plain->shape(1), ElementsAre(3));
}

TEST_F(TntidxDatasetTest, RefusesShapesThatContradictTheFile) {
  const auto error = [&](auto change) {
    TntidxFields fields = shaped_fields();
    change(fields);
    return open_error(fields, {.flatten = true});
  };
  EXPECT_THAT(open_error(shaped_fields()), HasSubstr("expected one dimension for each of the 3"));
  EXPECT_THAT(error([](TntidxFields& f) {
                f.dim_offsets = {0, 2, 9, 6};
              }),
              HasSubstr("item 1: expected sizes that are there, found dim offsets 2 and 9"));
  EXPECT_THAT(error([](TntidxFields& f) {
                f.dim_offsets = {1, 2, 3, 6};
              }),
              HasSubstr("item 0: expected sizes that are there"));
  EXPECT_THAT(error([](TntidxFields& f) {
                f.dim_offsets = {0, 2, 2, 6};
              }),
              HasSubstr("item 1: expected a dimension or more, found dim offsets 2 and 2"));
  EXPECT_THAT(error([](TntidxFields& f) {
                f.dim_offsets = {0, 2, 3, 5};
              }),
              HasSubstr("dim offset 3: expected 6 sizes, found 5"));
  EXPECT_THAT(error([](TntidxFields& f) { f.sizes[1] = int64_t{1} << 31; }),
              HasSubstr("item 0: expected fewer than 2^31 values"));
  EXPECT_THAT(error([](TntidxFields& f) { f.sizes[3] = -1; }),
              HasSubstr("item 2: expected fewer than 2^31 values"));
  EXPECT_THAT(error([](TntidxFields& f) {
                f.documents = {0, 1, 6};
              }),
              HasSubstr("document index 1: expected the first size of an item, found 1"));
  EXPECT_THAT(error([](TntidxFields& f) {
                f.documents = {0, 3, 7};
              }),
              HasSubstr("document index 2: expected the first size of an item, found 7"));
}

TEST_F(TntidxDatasetTest, ReadsFloatsAsEachRevisionWritesThem) {
  struct Case {
    uint64_t code;
    uint64_t item_size;
    int64_t offsets_an_item;
    std::string bin;
    DType dtype;
  };

  const std::string doubles = bytes_string<double>({1, 2, 3});
  for (const Case& one : {Case{6, 8, 1, doubles, DType::kFloat64},  // 6ef5bdc
                          Case{7, 4, 1, bytes_string<float>({1, 2, 3}), DType::kFloat32},
                          Case{6, 4, 2, doubles, DType::kFloat64},     // v2.6: np.float
                          Case{7, 8, 1, doubles, DType::kFloat64}}) {  // v2.6: np.double
    SCOPED_TRACE(std::to_string(one.code) + " " + std::to_string(one.item_size));
    TntidxFields fields = tntidx_fields({1, 2}, {0, 2});
    fields.dtype_code = one.code;
    fields.item_size = one.item_size;
    for (int64_t& offset : fields.data_offsets) offset *= one.offsets_an_item;
    const auto dataset = open(fields.bytes(), one.bin);
    ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
    EXPECT_EQ(dataset->dtype(), one.dtype);
    EXPECT_EQ(dataset->sequence(1)->size(), one.bin.size() / 3 * 2);
    if (one.dtype == DType::kFloat64) {
      EXPECT_THAT(dataset->tokens<double>(1).value(), ElementsAre(2, 3));
    }
    EXPECT_TRUE(verify_dataset(folder_.path("set"), {})->ok());
  }
}

TEST_F(TntidxDatasetTest, RefusesBadHeaders) {
  TntidxFields fields = small_fields();
  fields.version = 2;
  EXPECT_THAT(open_error(fields), HasSubstr("byte 8: version: expected 1, found 2"));
  fields = small_fields();
  fields.dtype_code = 260;  // 4, were only its last byte read
  EXPECT_THAT(open_error(fields), HasSubstr("found 260 and 4"));
  fields = small_fields();
  fields.item_size = 0;
  EXPECT_THAT(open_error(fields), HasSubstr("found 4 and 0"));
  EXPECT_THAT(open(small_fields().bytes().substr(0, 55)).error().message(),
              HasSubstr("expected a header of 56 bytes, found 55 bytes"));
  EXPECT_THAT(open("TNT").error().message(), HasSubstr("expected a header of 56 bytes"));
  EXPECT_THAT(open_error(small_fields(), {.multimodal = true}), HasSubstr("no sequence modes"));
}

TEST_F(TntidxDatasetTest, RefusesCountsThatContradictTheSize) {
  for (uint64_t TntidxFields::*const count : {&TntidxFields::item_count, &TntidxFields::size_count,
                                              &TntidxFields::document_index_count}) {
    for (const uint64_t wrong : {uint64_t{0}, uint64_t{6}, uint64_t{1} << 61, uint64_t{1} << 63,
                                 std::numeric_limits<uint64_t>::max()}) {
      TntidxFields fields = small_fields();
      fields.*count = wrong;
      EXPECT_EQ(open(fields.bytes()).error().code(), StatusCode::kCorruption) << wrong;
    }
  }
  EXPECT_THAT(open(small_fields().bytes() + "x").error().message(), HasSubstr("bytes, found "));
}

TEST_F(TntidxDatasetTest, RejectsEntriesThatLeaveTheFiles) {
  struct Damage {
    std::vector<int64_t> TntidxFields::*array;
    size_t entry;
    std::vector<int64_t> values;
  };

  const std::vector<Damage> damages = {
      {&TntidxFields::sizes,
       0,
       {-1, 11, kMax, int64_t{1} << 32, std::numeric_limits<int64_t>::min()}},
      {&TntidxFields::data_offsets, 0, {-1, 9, kMax, kMax / 4 + 1, int64_t{1} << 62}},
      {&TntidxFields::dim_offsets, 0, {-1, 1, kMax}},
      {&TntidxFields::dim_offsets, 1, {-1, 0, 2, kMax}}};
  for (const Damage& damage : damages) {
    for (const int64_t value : damage.values) {
      TntidxFields fields = small_fields();
      (fields.*damage.array)[damage.entry] = value;
      const auto dataset = open(fields.bytes());
      ASSERT_TRUE(dataset.has_value()) << "opening looks at the last sequence only";
      EXPECT_EQ(dataset->sequence(0).error().code(), StatusCode::kCorruption) << value;
    }
  }
}

/// One kind of damage and the entry that must be named.
struct Damage {
  const char* name;
  std::function<void(TntidxFields&)> apply;
  std::string_view check;
  int64_t byte_offset;
  int64_t index;
  int64_t count = 1;
};

constexpr int64_t kDims = 56;
constexpr int64_t kData = kDims + 8 * 6;
constexpr int64_t kSizes = kData + 8 * 6;
constexpr int64_t kDocuments = kSizes + 8 * 5;
constexpr int64_t kEnd = kDocuments + 8 * 5;

const std::vector<Damage> kDamages = {
    {"magic", [](TntidxFields& f) { f.magic[2] = 'Z'; }, VerifyCheck::kMagic, 0, -1},
    {"version", [](TntidxFields& f) { f.version = 1 << 8; }, VerifyCheck::kVersion, 8, -1},
    {"dtype 0", [](TntidxFields& f) { f.dtype_code = 0; }, VerifyCheck::kDtype, 16, -1},
    {"dtype 260", [](TntidxFields& f) { f.dtype_code = 260; }, VerifyCheck::kDtype, 16, -1},
    {"dtype int64 for int32", [](TntidxFields& f) { f.dtype_code = 5; }, VerifyCheck::kItemSize, 24,
     -1},
    {"item size 0", [](TntidxFields& f) { f.item_size = 0; }, VerifyCheck::kItemSize, 24, -1},
    {"item size huge", [](TntidxFields& f) { f.item_size = ~uint64_t{0}; }, VerifyCheck::kItemSize,
     24, -1},
    {"one item more", [](TntidxFields& f) { ++f.item_count; }, VerifyCheck::kIdxSize, kEnd, -1},
    {"one item less", [](TntidxFields& f) { --f.item_count; }, VerifyCheck::kIdxSize, kEnd - 16,
     -1},
    {"items huge", [](TntidxFields& f) { f.item_count = ~uint64_t{0}; }, VerifyCheck::kIdxSize, 32,
     -1},
    {"one size more", [](TntidxFields& f) { ++f.size_count; }, VerifyCheck::kIdxSize, kEnd, -1},
    {"sizes huge", [](TntidxFields& f) { f.size_count = uint64_t{1} << 62; }, VerifyCheck::kIdxSize,
     32, -1},
    {"no document index", [](TntidxFields& f) { f.document_index_count = 0; },
     VerifyCheck::kDocumentCount, 48, -1},
    {"one document more", [](TntidxFields& f) { ++f.document_index_count; }, VerifyCheck::kIdxSize,
     kEnd, -1},
    {"negative size", [](TntidxFields& f) { f.sizes[3] = -1; }, VerifyCheck::kSequenceLengths,
     kSizes + 24, 3},
    {"size beyond an int32", [](TntidxFields& f) { f.sizes[3] = (int64_t{1} << 32) + 1; },
     VerifyCheck::kSequenceLengths, kSizes + 24, 3},
    {"longer sequence", [](TntidxFields& f) { f.sizes[1] = 4; }, VerifyCheck::kSequencePointers,
     kData + 16, 2, 3},
    {"last length", [](TntidxFields& f) { f.sizes[4] = 3; }, VerifyCheck::kSequencePointers,
     kData + 40, 5},
    {"first offset", [](TntidxFields& f) { f.data_offsets[0] = 1; }, VerifyCheck::kSequencePointers,
     kData, 0},
    {"negative offset", [](TntidxFields& f) { f.data_offsets[2] = -3; },
     VerifyCheck::kSequencePointers, kData + 16, 2},
    {"offset whose bytes wrap", [](TntidxFields& f) { f.data_offsets[2] = int64_t{1} << 62; },
     VerifyCheck::kSequencePointers, kData + 16, 2},
    {"last offset", [](TntidxFields& f) { f.data_offsets[5] = 11; }, VerifyCheck::kSequencePointers,
     kData + 40, 5},
    {"dim offset", [](TntidxFields& f) { f.dim_offsets[2] = 3; }, VerifyCheck::kDimOffsets,
     kDims + 16, 2},
    {"last dim offset", [](TntidxFields& f) { f.dim_offsets[5] = kMax; }, VerifyCheck::kDimOffsets,
     kDims + 40, 5},
    {"first document index", [](TntidxFields& f) { f.documents[0] = 1; },
     VerifyCheck::kDocumentIndices, kDocuments, 0},
    {"document index that falls", [](TntidxFields& f) { f.documents[2] = 1; },
     VerifyCheck::kDocumentIndices, kDocuments + 16, 2},
    {"last document index", [](TntidxFields& f) { f.documents[4] = 6; },
     VerifyCheck::kDocumentIndices, kDocuments + 32, 4},
};

class VerifyTntidxTest : public ::testing::Test {
 protected:
  VerifyReport verify(const std::string& idx, const std::string& bin = kSmallBin,
                      const VerifyOptions& options = {}) {
    write_dataset(folder_.path("set"), idx, bin);
    auto report = verify_dataset(folder_.path("set"), options);
    EXPECT_TRUE(report.has_value()) << report.error().message();
    return report.has_value() ? std::move(report).value() : VerifyReport();
  }

  TempFolder folder_;
};

TEST_F(VerifyTntidxTest, AcceptsARightDataset) {
  const VerifyReport report = verify(small_fields().bytes(), kSmallBin, {.vocab_size = 10});
  EXPECT_TRUE(report.ok()) << report.problems.front().message();
  EXPECT_EQ(report.format, IndexFormat::kTntidx);
  EXPECT_EQ(report.sequence_count, 5);
  EXPECT_EQ(report.document_count, 4);
  EXPECT_EQ(report.item_count, 10);
}

TEST_F(VerifyTntidxTest, NamesTheDamagedEntry) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    TntidxFields fields = small_fields();
    damage.apply(fields);
    const VerifyReport report = verify(fields.bytes(), kSmallBin, {.vocab_size = 10});
    ASSERT_FALSE(report.ok());
    const Problem& first = report.problems.front();
    EXPECT_EQ(first.check, damage.check) << first.message();
    EXPECT_EQ(first.byte_offset, damage.byte_offset) << first.message();
    EXPECT_EQ(first.index, damage.index < 0 ? std::vector<int64_t>{} : std::vector{damage.index})
        << first.message();
    EXPECT_EQ(first.count, damage.count) << first.message();
  }
}

TEST_F(VerifyTntidxTest, SaysWhatTheFileHoldsAndWhatItShould) {
  TntidxFields fields = small_fields();
  fields.data_offsets[1] = int64_t{1} << 61;
  const VerifyReport report = verify(fields.bytes());
  EXPECT_EQ(report.problems.front().expected, "2");  // items, as the file counts
  EXPECT_EQ(report.problems.front().found, "2305843009213693952");
  fields = small_fields();
  fields.sizes[1] = 77;
  EXPECT_THAT(verify(fields.bytes()).problems.front().likely_cause,
              HasSubstr("the length of sequence 1 at byte 160 is 77, should be 3"));
}

TEST_F(VerifyTntidxTest, ExplainsCountsThatItCanInfer) {
  TntidxFields fields = small_fields();
  fields.item_count = 500;
  EXPECT_THAT(verify(fields.bytes()).problems.front().likely_cause,
              HasSubstr("the item count at byte 32 is 500, should be 5"));
  fields = small_fields();
  fields.size_count = 3;
  EXPECT_THAT(verify(fields.bytes()).problems.front().likely_cause,
              HasSubstr("the size count at byte 40 is 3, should be 5"));
  fields = small_fields();
  fields.document_index_count = 0;
  EXPECT_THAT(verify(fields.bytes()).problems.front().likely_cause,
              HasSubstr("the document index count at byte 48 is 0, should be 5"));
}

TEST_F(VerifyTntidxTest, KnowsTheMergeThatWritesNoDocumentIndices) {
  TntidxFields fields = tntidx_fields({2, 8}, {0});
  const VerifyReport report = verify(fields.bytes());
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems.front().check, VerifyCheck::kDocumentIndices);
  EXPECT_THAT(report.problems.front().likely_cause, HasSubstr("v2.6 merged without"));
}

TEST_F(VerifyTntidxTest, CatchesIdxCutAtEveryByte) {
  const std::string whole = small_fields().bytes();
  for (size_t size = 1; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const VerifyReport report = verify(whole.substr(0, size));
    ASSERT_FALSE(report.ok());
    const Problem& first = report.problems.front();
    EXPECT_EQ(first.check, size < 56 ? VerifyCheck::kHeader : VerifyCheck::kIdxSize);
    EXPECT_EQ(first.byte_offset, static_cast<int64_t>(size));
  }
}

TEST_F(VerifyTntidxTest, NamesTheArrayInWhichTheIdxEnds) {
  const std::string whole = small_fields().bytes();
  const auto place = [&](int64_t size) {
    return verify(whole.substr(0, static_cast<size_t>(size))).problems.front().subject;
  };
  EXPECT_EQ(place(30), "the file ends in the item size");
  EXPECT_EQ(place(kDims), "the file ends in entry 0 of dim_offsets");
  EXPECT_EQ(place(kData + 9), "the file ends in entry 1 of data_offsets");
  EXPECT_EQ(place(kSizes), "the file ends in entry 0 of sizes");
  EXPECT_EQ(place(kEnd - 8), "the file ends in entry 4 of document_indices");
}

TEST_F(VerifyTntidxTest, ChecksBinSizeIdsAndEnds) {
  const VerifyReport cut = verify(small_fields().bytes(), kSmallBin.substr(4));
  EXPECT_EQ(cut.problems.front().check, VerifyCheck::kBinSize);
  EXPECT_THAT(cut.problems.front().likely_cause, testing::IsEmpty());
  const VerifyReport ids = verify(small_fields().bytes(), kSmallBin, {.vocab_size = 9, .eod = 8});
  ASSERT_EQ(ids.problems.size(), 2U);
  EXPECT_EQ(ids.problems[0].subject, "sequence 1, item 2");
  EXPECT_EQ(ids.problems[0].byte_offset, 16);
  EXPECT_EQ(ids.problems[1].subject, "document 0, sequence 1");
}

TEST_F(VerifyTntidxTest, KnowsAView) {
  TntidxFields fields = tntidx_fields({1, 3}, {0, 2});
  fields.data_offsets = {9, 2, 0};
  EXPECT_FALSE(verify(fields.bytes()).ok());
  EXPECT_TRUE(verify(fields.bytes(), kSmallBin, {.view = true}).ok());
}

TEST(MergeTntidx, KeepsTokenizerAndProvenance) {
  const TempFolder folder;
  std::vector<std::string> prefixes;
  for (const char* const name : {"a", "b"}) {
    const std::string prefix = folder.path(name);
    const DatasetTokenizer tokenizer{.type = "T", .identity = "same", .vocab_size = 9};
    IndexedDatasetBuilder builder = create(prefix, {.tokenizer = tokenizer});
    add_two_documents(builder);
    ASSERT_TRUE(builder.finish().ok());
    auto provenance = ProvenanceWriter::create(prefix).value();
    const std::vector<DocumentPlace> places = {{.at = 5, .source = 0}, {.at = 6, .source = 0}};
    ASSERT_TRUE(provenance.append(places).ok());
    ASSERT_TRUE(provenance.complete({prefix + ".jsonl"}).ok());
    ASSERT_TRUE(provenance.publish().ok());
    prefixes.push_back(prefix);
  }
  const std::string out = folder.path("out");
  const auto summary = merge_datasets(prefixes, out, {});
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(read_file(out + ".idx"), tntidx_fields({3, 1, 3, 1}, {0, 2, 2, 4, 4}).bytes());
  EXPECT_EQ(read_dataset_tokenizer(out).value()->identity, "same");
  const auto provenance = Provenance::open_beside(out).value();
  ASSERT_TRUE(provenance.has_value());
  EXPECT_EQ(provenance->source(provenance->place(3)->source), prefixes[1] + ".jsonl");
}

}  // namespace
}  // namespace meg::dataset
