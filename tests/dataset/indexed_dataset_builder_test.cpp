#include "libmeg/dataset/indexed_dataset_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/verify_dataset.h"
#include "tests/dataset/dataset_bytes.h"
#include "tests/temp_folder.h"

namespace meg::dataset {
namespace {

using test::bytes_of;
using test::bytes_string;
using test::index_fields;
using test::read_file;
using test::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
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
    EXPECT_EQ(folder.file_count(), 5);
  }
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(IndexedDatasetBuilder, OnlyOneWritesADataset) {
  const TempFolder folder;
  auto first = IndexedDatasetBuilder::create(folder.path("set"), {});
  ASSERT_TRUE(first.has_value());
  const auto second = IndexedDatasetBuilder::create(folder.path("set.bin"), {});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().message(), folder.path("set") +
                                          ": another process is writing this dataset (it holds " +
                                          folder.path("set.lock") + ")");
  ASSERT_TRUE(first->finish().ok());
  EXPECT_TRUE(IndexedDatasetBuilder::create(folder.path("set"), {}).has_value());
  EXPECT_EQ(folder.file_count(), 2);
}

TEST(IndexedDatasetBuilder, RefusesAPipeAsAnOutput) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("set.idx").c_str(), 0600), 0);
  const auto builder = IndexedDatasetBuilder::create(folder.path("set"), {});
  ASSERT_FALSE(builder.has_value());
  EXPECT_THAT(builder.error().message(), HasSubstr("set.idx: expected a regular file"));
  EXPECT_EQ(folder.file_count(), 1);
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
              HasSubstr("sequence 0: 3 bytes are not a whole number of uint16s"));
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

using Documents = std::vector<std::vector<std::vector<uint16_t>>>;

/// Documents of random sequences, many of them empty.
Documents random_documents(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  Documents documents(count);
  for (auto& document : documents) {
    document.resize(random() % 4);
    for (auto& sequence : document) {
      sequence.resize(random() % 3 == 0 ? 0 : random() % 200);
      for (uint16_t& item : sequence) item = static_cast<uint16_t>(random());
    }
  }
  return documents;
}

/// A builder that has taken these documents.
IndexedDatasetBuilder filled(const std::string& prefix, const Documents& documents,
                             bool multimodal) {
  auto builder =
      IndexedDatasetBuilder::create(prefix, {.dtype = DType::kUint16, .multimodal = multimodal});
  EXPECT_TRUE(builder.has_value()) << builder.error().message();
  for (const auto& document : documents) {
    for (const auto& sequence : document) {
      const auto mode = static_cast<int8_t>(multimodal ? sequence.size() % 100 : 0);
      EXPECT_TRUE(builder->add_item(bytes_of(sequence), mode).ok());
    }
    EXPECT_TRUE(builder->end_document().ok());
  }
  return *std::move(builder);
}

void build(const std::string& prefix, const Documents& documents, bool multimodal) {
  const Status status = filled(prefix, documents, multimodal).finish();
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(IndexedDatasetBuilder, ReaderGivesBackRandomDocuments) {
  const TempFolder folder;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const bool multimodal = seed % 2 == 0;
    const auto documents = random_documents(seed, seed * 20);
    build(folder.path("set"), documents, multimodal);
    EXPECT_TRUE(verify_dataset(folder.path("set"), {})->ok());
    const auto dataset = IndexedDataset::open(folder.path("set"), {.multimodal = multimodal});
    ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
    ASSERT_EQ(dataset->document_count(), static_cast<int64_t>(documents.size()));
    for (size_t d = 0; d < documents.size(); ++d) {
      const SequenceRange range = dataset->document(static_cast<int64_t>(d)).value();
      ASSERT_EQ(range.end - range.begin, static_cast<int64_t>(documents[d].size()));
      for (size_t s = 0; s < documents[d].size(); ++s) {
        const int64_t sequence = range.begin + static_cast<int64_t>(s);
        EXPECT_THAT(dataset->tokens<uint16_t>(sequence).value(), ElementsAreArray(documents[d][s]));
        if (multimodal) {
          EXPECT_EQ(dataset->sequence_modes()[sequence],
                    static_cast<int8_t>(documents[d][s].size() % 100));
        }
      }
    }
  }
}

/// The items and lengths of some documents, as a worker of the pipeline has them.
struct Piece {
  std::vector<uint16_t> items;
  std::vector<int32_t> lengths;
  std::vector<int32_t> counts;
};

TEST(IndexedDatasetBuilder, WritersOfManyThreadsEqualAddItem) {
  const TempFolder folder;
  const auto documents = random_documents(99, 3000);
  build(folder.path("serial"), documents, false);
  std::vector<Piece> pieces(1);
  for (const auto& document : documents) {
    if (pieces.back().counts.size() == 37) pieces.emplace_back();
    Piece& piece = pieces.back();
    piece.counts.push_back(static_cast<int32_t>(document.size()));
    for (const auto& sequence : document) {
      piece.lengths.push_back(static_cast<int32_t>(sequence.size()));
      piece.items.insert(piece.items.end(), sequence.begin(), sequence.end());
    }
  }
  auto builder = IndexedDatasetBuilder::create(folder.path("parallel"), {.dtype = DType::kUint16});
  ASSERT_TRUE(builder.has_value());
  {
    ThreadPool pool(8);
    for (const Piece& piece : pieces) {
      const auto offset = builder->reserve(piece.lengths, piece.counts);
      ASSERT_TRUE(offset.has_value()) << offset.error().message();
      pool.submit([&builder, &piece, at = *offset] {
        EXPECT_TRUE(builder->write_at(at, bytes_of(piece.items)).ok());
      });
    }
  }
  ASSERT_TRUE(builder->finish().ok());
  EXPECT_EQ(read_file(folder.path("parallel.bin")), read_file(folder.path("serial.bin")));
  EXPECT_EQ(read_file(folder.path("parallel.idx")), read_file(folder.path("serial.idx")));
}

TEST(IndexedDatasetBuilder, WritesMoreThanItsBuffersHold) {
  const TempFolder folder;
  auto builder = IndexedDatasetBuilder::create(folder.path("set"), {.dtype = DType::kUint8});
  ASSERT_TRUE(builder.has_value());
  const std::vector<uint8_t> large(3 << 20, 7);
  const std::vector<uint8_t> small(1, 9);
  ASSERT_TRUE(builder->add_item(bytes_of(large)).ok());
  constexpr int64_t kSequences = 400'000;
  for (int64_t i = 1; i < kSequences; ++i) {
    ASSERT_TRUE(builder->add_item(bytes_of(small)).ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(builder->end_document().ok());
    }
  }
  ASSERT_TRUE(builder->end_document().ok());
  ASSERT_TRUE(builder->finish().ok());
  const auto report = verify_dataset(folder.path("set"), {.vocab_size = 10, .eod = 9});
  EXPECT_TRUE(report->ok()) << report->problems.front().message();
  EXPECT_EQ(report->sequence_count, kSequences);
  EXPECT_EQ(report->document_count, kSequences / 2);
  EXPECT_EQ(report->item_count, (3 << 20) + kSequences - 1);
}

TEST(IndexedDatasetBuilder, AddingABuilderIsAddingItsDataset) {
  const TempFolder folder;
  const Documents some = random_documents(1, 40000), more = random_documents(2, 3);
  for (const bool multimodal : {false, true}) {
    auto first = filled(folder.path("first"), some, multimodal);
    auto second = filled(folder.path("second"), more, multimodal);
    auto merged = filled(folder.path("merged"), more, multimodal);
    auto expected = filled(folder.path("expected"), more, multimodal);
    ASSERT_EQ(merged.add_builder(first).message(), "");
    ASSERT_EQ(merged.add_builder(second).message(), "");
    IndexedDatasetBuilder* const all[] = {&first, &merged, &second};
    ASSERT_EQ(IndexedDatasetBuilder::finish_all(all).message(), "");
    ASSERT_TRUE(expected.add_index(folder.path("first")).ok());
    ASSERT_TRUE(expected.add_index(folder.path("second")).ok());
    ASSERT_TRUE(expected.finish().ok());
    for (const char* end : {".bin", ".idx"}) {
      EXPECT_TRUE(read_file(folder.path("merged") + end) ==
                  read_file(folder.path("expected") + end));
    }
  }
}

TEST(IndexedDatasetBuilder, RefusesToAddABuilderInTheMiddleOfADocument) {
  const TempFolder folder;
  auto open = filled(folder.path("open"), {}, false);
  ASSERT_TRUE(open.add_item(bytes_of<uint16_t>({1})).ok());
  auto other = filled(folder.path("other"), {}, false);
  EXPECT_EQ(other.add_builder(open).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(open.add_builder(other).code(), StatusCode::kInvalidArgument);
  auto modes = filled(folder.path("modes"), {}, true);
  EXPECT_THAT(other.add_builder(modes).message(), HasSubstr("expected the dtype and modes"));
}

TEST(IndexedDatasetBuilder, RefusesToAddAnIndexOfAnotherKind) {
  const TempFolder folder;
  build(folder.path("plain"), {{{1, 2}}}, false);
  build(folder.path("modes"), {{{1, 2}}}, true);
  auto wider = IndexedDatasetBuilder::create(folder.path("wider"), {.dtype = DType::kInt32});
  EXPECT_THAT(wider->add_index(folder.path("plain")).message(),
              AllOf(HasSubstr("expected dtype int32"), HasSubstr("found uint16")));
  auto plain = IndexedDatasetBuilder::create(folder.path("merged"), {.dtype = DType::kUint16});
  EXPECT_THAT(plain->add_index(folder.path("modes")).message(), HasSubstr("expected"));
  EXPECT_EQ(plain->add_index(folder.path("none")).code(), StatusCode::kNotFound);
  ASSERT_TRUE(plain->add_index(folder.path("plain.bin")).ok());
  EXPECT_EQ(plain->document_count(), 1);
}

TEST(IndexedDatasetBuilder, RefusesToAddPointersThatContradictTheLengths) {
  const TempFolder folder;
  test::IndexFields fields = index_fields(8, {1, 1, 1}, {0, 3});
  fields.pointers[1] = 4;
  test::write_dataset(folder.path("bad"), fields.bytes(), "aabbcc");
  auto builder = IndexedDatasetBuilder::create(folder.path("set"), {.dtype = DType::kUint16});
  EXPECT_THAT(builder->add_index(folder.path("bad")).message(),
              HasSubstr("sequence 1 of length 1: expected pointer 2, found 4"));
}

/// A file system of 1 MiB; empty where this process may not mount one.
class SmallFilesystem {
 public:
  explicit SmallFilesystem(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    mounted_ = ::mount("meg-test", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }

  ~SmallFilesystem() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }

  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST(IndexedDatasetBuilder, FullDiskLeavesNoFile) {
  const TempFolder folder;
  const SmallFilesystem small(folder.path("small"));
  if (!small.mounted()) GTEST_SKIP() << "cannot mount a small tmpfs: " << std::strerror(errno);
  const std::vector<uint16_t> items(100'000, 5);
  Status status;
  {
    auto builder =
        IndexedDatasetBuilder::create(folder.path("small/set"), {.dtype = DType::kUint16});
    ASSERT_TRUE(builder.has_value()) << builder.error().message();
    for (int i = 0; i < 10 && status.ok(); ++i) {
      status = builder->add_item(bytes_of(items));
      if (status.ok()) status = builder->end_document();
    }
    if (status.ok()) status = builder->finish();
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("set.bin: No space left on device"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("small")));
}

}  // namespace
}  // namespace meg::dataset
