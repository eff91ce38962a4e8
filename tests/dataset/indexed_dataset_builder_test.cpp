#include "libmeg/dataset/indexed_dataset_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/dataset/dataset_bytes.h"
#include "tests/temp_folder.h"

namespace meg {
namespace {

using test::bytes_of;
using test::bytes_string;
using test::index_fields;
using test::read_file;
using test::TempFolder;
using ::testing::HasSubstr;

TEST(IndexedDatasetBuilder, WritesLengthsPointersAndDocumentIndices) {
  const TempFolder folder;
  auto builder = IndexedDatasetBuilder::create(folder.path("set"), {.dtype = DType::kUint16});
  ASSERT_TRUE(builder.has_value()) << builder.error().message();
  ASSERT_TRUE(builder->add_item(bytes_of<uint16_t>({1, 2, 3})).ok());
  ASSERT_TRUE(builder->add_item(bytes_of<uint16_t>({4})).ok());
  ASSERT_TRUE(builder->end_document().ok());
  ASSERT_TRUE(builder->end_document().ok());
  EXPECT_EQ(builder->sequence_count(), 2);
  EXPECT_EQ(builder->document_count(), 2);
  EXPECT_EQ(builder->item_count(), 4);
  ASSERT_TRUE(builder->finish().ok());
  EXPECT_EQ(read_file(folder.path("set.bin")), bytes_string<uint16_t>({1, 2, 3, 4}));
  EXPECT_EQ(read_file(folder.path("set.idx")), index_fields(8, {3, 1}, {0, 2, 2}).bytes());
}

TEST(IndexedDatasetBuilder, EmptySetIs42Bytes) {
  const TempFolder folder;
  auto builder = IndexedDatasetBuilder::create(folder.path("set"), {});
  ASSERT_TRUE(builder->finish().ok());
  EXPECT_EQ(read_file(folder.path("set.bin")), "");
  EXPECT_EQ(read_file(folder.path("set.idx")), index_fields(4, {}, {0}).bytes());
  EXPECT_EQ(read_file(folder.path("set.idx")).size(), 42U);
}

TEST(IndexedDatasetBuilder, PrefixMayEndInBinOrIdx) {
  const TempFolder folder;
  auto builder = IndexedDatasetBuilder::create(folder.path("set.idx"), {});
  ASSERT_TRUE(builder->finish().ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path("set.bin")));
  EXPECT_TRUE(std::filesystem::exists(folder.path("set.idx")));
  EXPECT_EQ(folder.file_count(), 2);
}

TEST(IndexedDatasetBuilder, LeavesNothingBehindWithoutFinish) {
  const TempFolder folder;
  {
    auto builder = IndexedDatasetBuilder::create(folder.path("set"), {.multimodal = true});
    ASSERT_TRUE(builder->add_item(bytes_of<int32_t>({1, 2, 3}), 5).ok());
    EXPECT_EQ(folder.file_count(), 4);
  }
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(IndexedDatasetBuilder, ReservedRangesTakeTheirPlacesInOrder) {
  const TempFolder folder;
  auto builder = IndexedDatasetBuilder::create(folder.path("set"), {.dtype = DType::kUint16});
  ASSERT_TRUE(builder->add_item(bytes_of<uint16_t>({9})).ok());
  ASSERT_TRUE(builder->end_document().ok());
  const auto first = builder->reserve(std::vector<int32_t>{2, 1}, std::vector<int32_t>{0, 2});
  const auto second = builder->reserve(std::vector<int32_t>{1}, std::vector<int32_t>{1});
  ASSERT_TRUE(builder->add_item(bytes_of<uint16_t>({8})).ok());
  ASSERT_TRUE(builder->end_document().ok());
  EXPECT_EQ(first.value(), 2);
  EXPECT_EQ(second.value(), 8);
  ASSERT_TRUE(builder->write_at(*second, bytes_of<uint16_t>({4})).ok());
  ASSERT_TRUE(builder->write_at(*first, bytes_of<uint16_t>({1, 2, 3})).ok());
  ASSERT_TRUE(builder->finish().ok());
  EXPECT_EQ(read_file(folder.path("set.bin")), bytes_string<uint16_t>({9, 1, 2, 3, 4, 8}));
  EXPECT_EQ(read_file(folder.path("set.idx")),
            index_fields(8, {1, 2, 1, 1, 1}, {0, 1, 1, 3, 4, 5}).bytes());
}

TEST(IndexedDatasetBuilder, RefusesWhatTheFormatCannotSay) {
  const TempFolder folder;
  EXPECT_THAT(IndexedDatasetBuilder::create(folder.path("set"), {.dtype = DType::kBFloat16})
                  .error()
                  .message(),
              HasSubstr("datasets cannot hold bfloat16"));
  auto builder = IndexedDatasetBuilder::create(folder.path("set"), {.dtype = DType::kUint16});
  EXPECT_THAT(builder->add_item(bytes_of<uint8_t>({1, 2, 3})).message(),
              HasSubstr("sequence 0: 3 bytes are no whole uint16s"));
  EXPECT_THAT(builder->add_item(bytes_of<uint16_t>({1}), 2).message(), HasSubstr("mode 2"));
  EXPECT_THAT(
      builder->reserve(std::vector<int32_t>{1, -2}, std::vector<int32_t>{2}).error().message(),
      HasSubstr("sequence 1: negative length -2"));
  EXPECT_THAT(
      builder->reserve(std::vector<int32_t>{1, 2}, std::vector<int32_t>{1}).error().message(),
      HasSubstr("do not add up to 2 sequences"));
  EXPECT_EQ(builder->write_at(0, bytes_of<uint16_t>({1})).code(), StatusCode::kOutOfRange);
}

TEST(IndexedDatasetBuilder, FinishRefusesOpenDocumentsAndMissingItems) {
  const TempFolder folder;
  auto open = IndexedDatasetBuilder::create(folder.path("open"), {});
  ASSERT_TRUE(open->add_item(bytes_of<int32_t>({1})).ok());
  EXPECT_THAT(open->reserve({}, {}).error().message(), HasSubstr("inside a document"));
  EXPECT_THAT(open->finish().message(), HasSubstr("1 sequences after the last end_document()"));
  auto missing = IndexedDatasetBuilder::create(folder.path("missing"), {});
  const auto offset = missing->reserve(std::vector<int32_t>{3}, std::vector<int32_t>{1});
  ASSERT_TRUE(missing->write_at(*offset, bytes_of<int32_t>({1, 2})).ok());
  EXPECT_THAT(missing->finish().message(), HasSubstr("12 bytes reserved, 8 written"));
}

}  // namespace
}  // namespace meg
