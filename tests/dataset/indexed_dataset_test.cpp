#include "libmeg/dataset/indexed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/dataset/dataset_bytes.h"
#include "tests/temp_folder.h"

namespace meg::dataset {
namespace {

using test::bytes_string;
using test::index_fields;
using test::IndexFields;
using test::TempFolder;
using test::write_dataset;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint8_t kUint16Code = 8;

/// Three sequences of uint16 in three documents, the second of them empty.
IndexFields small_fields() { return index_fields(kUint16Code, {3, 0, 2}, {0, 2, 2, 3}); }

const std::string kSmallBin = bytes_string<uint16_t>({10, 20, 65535, 40, 50});

class IndexedDatasetTest : public ::testing::Test {
 protected:
  Result<IndexedDataset> open(const std::string& idx, const std::string& bin,
                              const IndexedDataset::Options& options = {}) {
    const std::string prefix = folder_.path("set");
    write_dataset(prefix, idx, bin);
    return IndexedDataset::open(prefix, options);
  }

  std::string open_error(const std::string& idx, const std::string& bin = kSmallBin,
                         const IndexedDataset::Options& options = {}) {
    const auto dataset = open(idx, bin, options);
    return dataset.has_value() ? "opened" : dataset.error().message();
  }

  TempFolder folder_;
};

TEST_F(IndexedDatasetTest, GivesCountsAndArrays) {
  const auto dataset = open(small_fields().bytes(), kSmallBin);
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->dtype(), DType::kUint16);
  EXPECT_EQ(dataset->sequence_count(), 3);
  EXPECT_EQ(dataset->document_count(), 3);
  EXPECT_EQ(dataset->item_count(), 5);
  EXPECT_FALSE(dataset->multimodal());
  EXPECT_EQ(dataset->sequence_lengths()[2], 2);
  EXPECT_EQ(dataset->sequence_pointers()[2], 6);
  EXPECT_EQ(dataset->document_indices()[3], 3);
  EXPECT_TRUE(dataset->sequence_modes().empty());
}

TEST_F(IndexedDatasetTest, CountsTheTokensOfAViewByTheLengths) {
  IndexFields fields = small_fields();
  fields.pointers = {4, 0,
                     0};  // 65535 40 50, nothing, 10 20: the last sequence comes first in .bin
  const auto dataset = open(fields.bytes(), kSmallBin);
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->item_count(), 5);
  EXPECT_THAT(*dataset->tokens<uint16_t>(0), ElementsAre(65535, 40, 50));
  EXPECT_THAT(*dataset->tokens<uint16_t>(2), ElementsAre(10, 20));
}

TEST_F(IndexedDatasetTest, ViewsStayValidWhenTheDatasetMoves) {
  auto dataset = open(small_fields().bytes(), kSmallBin);
  const auto before = dataset->tokens<uint16_t>(0).value();
  const IndexedDataset moved = std::move(dataset).value();
  EXPECT_THAT(before, ElementsAre(10, 20, 65535));
  EXPECT_EQ(moved.tokens<uint16_t>(0)->data(), before.data());
}

TEST_F(IndexedDatasetTest, ReadsSequencesInWholeAndInPart) {
  const auto dataset = open(small_fields().bytes(), kSmallBin);
  std::vector<std::byte> buffer;
  EXPECT_THAT(dataset->tokens<uint16_t>(0).value(), ElementsAre(10, 20, 65535));
  EXPECT_TRUE(dataset->tokens<uint16_t>(1)->empty());
  EXPECT_EQ(dataset->sequence(0, 1, 2, buffer)->size(), 4U);
  EXPECT_EQ(dataset->sequence(0, 3, 0, buffer)->size(), 0U);
  EXPECT_THAT(dataset->sequence(0, 2, 2, buffer).error().message(),
              HasSubstr("sequence 0: 2 items from 2 on of 3"));
  EXPECT_FALSE(dataset->sequence(0, -1, 1, buffer).has_value());
  EXPECT_FALSE(dataset->sequence(0, 1, std::numeric_limits<int64_t>::max(), buffer).has_value());
  EXPECT_EQ(dataset->tokens<int16_t>(0).error().code(), StatusCode::kInvalidArgument);
}

TEST_F(IndexedDatasetTest, ReadsDocuments) {
  const auto dataset = open(small_fields().bytes(), kSmallBin);
  EXPECT_EQ(dataset->document(0)->end, 2);
  EXPECT_EQ(dataset->document(1)->begin, dataset->document(1)->end);
  EXPECT_THAT(dataset->document(3).error().message(),
              HasSubstr("document 3: the dataset has 3 documents"));
  EXPECT_EQ(dataset->document(-1).error().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(dataset->sequence(3).error().code(), StatusCode::kOutOfRange);
}

TEST_F(IndexedDatasetTest, CopiesTokensOfEveryIntegerType) {
  const auto unsigned_ones = open(small_fields().bytes(), kSmallBin);
  std::vector<int32_t> narrow(2);
  ASSERT_TRUE(unsigned_ones->copy_tokens(0, 1, narrow).ok());
  EXPECT_THAT(narrow, ElementsAre(20, 65535));
  const auto long_ones =
      open(index_fields(5, {2}, {0, 1}).bytes(), bytes_string<int64_t>({-7, int64_t{1} << 40}));
  std::vector<int64_t> wide(2);
  ASSERT_TRUE(long_ones->copy_tokens(0, 0, wide).ok());
  EXPECT_THAT(wide, ElementsAre(-7, int64_t{1} << 40));
  EXPECT_THAT(long_ones->copy_tokens(0, 0, narrow).message(),
              HasSubstr("sequence 0: item 1: 1099511627776 does not fit in int32"));
  const auto floats = open(index_fields(7, {1}, {0, 1}).bytes(), bytes_string<float>({1.5F}));
  EXPECT_EQ(floats->copy_tokens(0, 0, std::span(wide).first(1)).code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(floats->tokens<float>(0).value(), ElementsAre(1.5F));
}

TEST_F(IndexedDatasetTest, InfersModesFromTheSizeUnlessTold) {
  IndexFields fields = small_fields();
  fields.modes = {0, 1, 2};
  const auto inferred = open(fields.bytes(), kSmallBin);
  ASSERT_TRUE(inferred.has_value());
  EXPECT_TRUE(inferred->multimodal());
  EXPECT_EQ(inferred->sequence_modes()[2], 2);
  EXPECT_THAT(open_error(fields.bytes(), kSmallBin, {.multimodal = false}),
              HasSubstr("expected 102 bytes, found 105"));
  EXPECT_THAT(open_error(small_fields().bytes(), kSmallBin, {.multimodal = true}),
              HasSubstr("with modes: expected 105 bytes, found 102"));
}

TEST_F(IndexedDatasetTest, TellsFloat64OfV2_6FromFloat32) {
  IndexFields fields = index_fields(6, {2, 1}, {0, 2});
  fields.dtype_code = kLegacyFloat64Code;
  const auto dataset = open(fields.bytes(), bytes_string<double>({1, 2, 3}));
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->dtype(), DType::kFloat64);
  EXPECT_THAT(dataset->tokens<double>(1).value(), ElementsAre(3));
}

TEST_F(IndexedDatasetTest, RefusesBadHeaders) {
  IndexFields fields = small_fields();
  fields.magic = std::string("MMIDIDY\0\0", 9);
  EXPECT_THAT(open_error(fields.bytes()), HasSubstr("byte 0: bad magic: expected"));
  fields = small_fields();
  fields.version = 2;
  EXPECT_THAT(open_error(fields.bytes()), HasSubstr("byte 9: version: expected 1, found 2"));
  fields = small_fields();
  fields.dtype_code = 9;
  EXPECT_THAT(open_error(fields.bytes()), HasSubstr("byte 17: dtype: expected 1 to 8, found 9"));
  EXPECT_THAT(open_error(small_fields().bytes().substr(0, 33)), HasSubstr("found 33 bytes"));
  EXPECT_THAT(open_error(""), HasSubstr("found 0 bytes"));
}

TEST_F(IndexedDatasetTest, RefusesCountsThatContradictTheSize) {
  IndexFields fields = small_fields();
  fields.sequence_count = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(open_error(fields.bytes()), HasSubstr("too few"));
  fields.sequence_count = (uint64_t{1} << 62) / 3;
  EXPECT_THAT(open_error(fields.bytes()), HasSubstr("too few"));
  fields = small_fields();
  fields.document_index_count = 0;
  EXPECT_THAT(open_error(fields.bytes()), HasSubstr("expected at least 1, found 0"));
  EXPECT_THAT(open_error(small_fields().bytes() + "x"), HasSubstr("expected 102 bytes, found 103"));
}

TEST_F(IndexedDatasetTest, RefusesDocumentIndicesThatDoNotClose) {
  EXPECT_THAT(open_error(index_fields(kUint16Code, {3, 2}, {1, 2}).bytes()),
              HasSubstr("expected to run from 0 to 2, found 1 to 2"));
  EXPECT_THAT(open_error(index_fields(kUint16Code, {3, 2}, {0, 1}).bytes()),
              HasSubstr("expected to run from 0 to 2, found 0 to 1"));
}

TEST_F(IndexedDatasetTest, RefusesLastSequencePastEndOfBin) {
  EXPECT_THAT(open_error(small_fields().bytes(), kSmallBin.substr(0, 9)), HasSubstr("are outside"));
}

TEST_F(IndexedDatasetTest, RejectsPointerPastEndOfBin) {
  for (const int64_t pointer :
       {int64_t{6}, int64_t{-2}, int64_t{1}, int64_t{1000}, std::numeric_limits<int64_t>::max() - 1,
        std::numeric_limits<int64_t>::min()}) {
    IndexFields fields = small_fields();
    fields.pointers[0] = pointer;
    const auto dataset = open(fields.bytes(), kSmallBin);
    ASSERT_TRUE(dataset.has_value()) << "opening looks at the last sequence only";
    EXPECT_EQ(dataset->sequence(0).error().code(), StatusCode::kCorruption) << pointer;
  }
}

TEST_F(IndexedDatasetTest, NamesAPointerThatIsNoMultipleOfTheItemSize) {
  IndexFields fields = small_fields();
  fields.pointers[0] = 1;
  const auto dataset = open(fields.bytes(), kSmallBin);
  ASSERT_TRUE(dataset.has_value());
  EXPECT_THAT(
      dataset->sequence(0).error().message(),
      HasSubstr(": sequence 0: pointer: expected a multiple of 2, the bytes of uint16, found 1"));
}

TEST_F(IndexedDatasetTest, RejectsNegativeAndHugeLengths) {
  for (const int32_t length :
       {-1, 6, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    IndexFields fields = small_fields();
    fields.lengths[0] = length;
    const auto dataset = open(fields.bytes(), kSmallBin);
    ASSERT_TRUE(dataset.has_value());
    EXPECT_EQ(dataset->sequence(0).error().code(), StatusCode::kCorruption) << length;
  }
}

TEST_F(IndexedDatasetTest, RejectsDocumentsOutsideTheSequences) {
  for (const int64_t index : {int64_t{-1}, int64_t{4}, std::numeric_limits<int64_t>::max()}) {
    IndexFields fields = small_fields();
    fields.documents[1] = index;
    const auto dataset = open(fields.bytes(), kSmallBin);
    ASSERT_TRUE(dataset.has_value());
    EXPECT_EQ(dataset->document(0).error().code(), StatusCode::kCorruption) << index;
  }
}

TEST_F(IndexedDatasetTest, NamesTheFileThatIsMissing) {
  EXPECT_THAT(IndexedDataset::open(folder_.path("none")).error().message(),
              HasSubstr("none.idx: No such file"));
  test::write_file(folder_.path("half.idx"), small_fields().bytes());
  const auto half = IndexedDataset::open(folder_.path("half.idx"));
  EXPECT_EQ(half.error().code(), StatusCode::kNotFound);
  EXPECT_THAT(half.error().message(), HasSubstr("half.bin: No such file"));
}

}  // namespace
}  // namespace meg::dataset
