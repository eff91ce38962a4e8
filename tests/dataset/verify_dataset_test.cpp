#include "libmeg/dataset/verify_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "libmeg/dataset/dataset_summary.h"
#include "libmeg/dataset/indexed_dataset.h"
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
using ::testing::IsEmpty;

constexpr uint8_t kUint16Code = 8;

/// Five sequences (the third empty) of 2, 3, 0, 1 and 4 items in four documents (the third empty).
IndexFields small_fields() { return index_fields(kUint16Code, {2, 3, 0, 1, 4}, {0, 2, 4, 4, 5}); }

const std::string kSmallBin = bytes_string<uint16_t>({1, 2, 3, 4, 9, 9, 5, 6, 7, 9});

/// Calls everything that reads a dataset, to show that it does not crash.
void touch_everything(const std::string& prefix) {
  const auto dataset = IndexedDataset::open(prefix);
  if (!dataset.has_value()) return;
  for (int64_t i = -1; i <= std::min<int64_t>(dataset->sequence_count(), 100); ++i) {
    int64_t sum = 0;
    if (const auto items = dataset->sequence(i); items.has_value()) {
      for (const std::byte item : *items) sum += static_cast<int64_t>(item);
    }
    std::vector<int64_t> out(1);
    (void)dataset->copy_tokens(i, 0, out);
    EXPECT_GE(sum, 0);
  }
  for (int64_t i = -1; i <= std::min<int64_t>(dataset->document_count(), 100); ++i) {
    (void)dataset->document(i);
  }
  (void)summarize_lengths(*dataset);
}

class VerifyDatasetTest : public ::testing::Test {
 protected:
  VerifyReport verify(const std::string& idx, const std::string& bin = kSmallBin,
                      const VerifyOptions& options = {}) {
    const std::string prefix = folder_.path("set");
    write_dataset(prefix, idx, bin);
    touch_everything(prefix);
    auto report = verify_dataset(prefix, options);
    EXPECT_TRUE(report.has_value()) << report.error().message();
    return report.has_value() ? std::move(report).value() : VerifyReport();
  }

  TempFolder folder_;
};

TEST_F(VerifyDatasetTest, AcceptsARightDataset) {
  const VerifyReport report = verify(small_fields().bytes(), kSmallBin, {.vocab_size = 10});
  EXPECT_TRUE(report.ok()) << report.problems.front().message();
  EXPECT_EQ(report.sequence_count, 5);
  EXPECT_EQ(report.document_count, 4);
  EXPECT_EQ(report.item_count, 10);
}

TEST_F(VerifyDatasetTest, KnowsAView) {
  IndexFields fields = small_fields();
  fields.pointers = {18, 4, 0, 0, 4};  // slices in another order, one twice, and an end left out
  fields.lengths = {1, 3, 0, 1, 3};
  const VerifyReport strict = verify(fields.bytes());
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.problems[0].check, VerifyCheck::kSequencePointers);
  EXPECT_THAT(strict.problems[0].likely_cause, HasSubstr("if it is a view"));
  const VerifyReport view = verify(fields.bytes(), kSmallBin, {.view = true, .vocab_size = 10});
  EXPECT_TRUE(view.ok()) << view.problems.front().message();
  EXPECT_EQ(view.item_count, 8);
}

TEST_F(VerifyDatasetTest, NamesTheSequenceOfAViewThatIsNotInside) {
  for (const int64_t wrong : {int64_t{-2}, int64_t{3}, int64_t{16}, int64_t{22},
                              std::numeric_limits<int64_t>::max() - 1}) {
    IndexFields fields = small_fields();
    fields.pointers[1] = wrong;
    const VerifyReport report = verify(fields.bytes(), kSmallBin, {.view = true});
    ASSERT_EQ(report.problems.size(), 1u) << wrong;
    EXPECT_EQ(report.problems[0].check, VerifyCheck::kSequencePointers);
    EXPECT_THAT(report.problems[0].index, ElementsAre(1));
    EXPECT_EQ(report.problems[0].found, std::to_string(wrong));
  }
}

TEST_F(VerifyDatasetTest, ReportsEveryKindOfProblem) {
  IndexFields fields = small_fields();
  fields.version = 3;
  fields.lengths[0] = -2;
  fields.documents[1] = 7;
  const VerifyReport report = verify(fields.bytes(), kSmallBin, {.vocab_size = 5, .eod = 8});
  std::vector<std::string_view> checks;
  for (const Problem& problem : report.problems) checks.push_back(problem.check);
  EXPECT_THAT(checks, ::testing::ElementsAre(VerifyCheck::kVersion, VerifyCheck::kSequenceLengths,
                                             VerifyCheck::kSequencePointers,
                                             VerifyCheck::kDocumentIndices, VerifyCheck::kBinSize,
                                             VerifyCheck::kVocabSize, VerifyCheck::kEod));
}

/// One kind of damage and the entry that must be named.
struct Damage {
  const char* name;
  std::function<void(IndexFields&)> apply;
  std::string_view check;
  int64_t byte_offset;
  int64_t index;
  int64_t count = 1;
};

constexpr int64_t kLengths = 34;
constexpr int64_t kPointers = kLengths + 4 * 5;
constexpr int64_t kDocuments = kPointers + 8 * 5;
constexpr int64_t kEnd = kDocuments + 8 * 5;

const std::vector<Damage> kDamages = {
    {"magic", [](IndexFields& f) { f.magic[6] = 'Z'; }, VerifyCheck::kMagic, 0, -1},
    {"version 0", [](IndexFields& f) { f.version = 0; }, VerifyCheck::kVersion, 9, -1},
    {"version huge", [](IndexFields& f) { f.version = ~uint64_t{0}; }, VerifyCheck::kVersion, 9,
     -1},
    {"dtype 0", [](IndexFields& f) { f.dtype_code = 0; }, VerifyCheck::kDtype, 17, -1},
    {"dtype 9", [](IndexFields& f) { f.dtype_code = 9; }, VerifyCheck::kDtype, 17, -1},
    {"dtype 255", [](IndexFields& f) { f.dtype_code = 255; }, VerifyCheck::kDtype, 17, -1},
    {"dtype int32 for uint16", [](IndexFields& f) { f.dtype_code = 4; },
     VerifyCheck::kSequencePointers, kPointers + 8, 1, 4},
    {"one sequence more", [](IndexFields& f) { ++f.sequence_count; }, VerifyCheck::kIdxSize, kEnd,
     -1},
    {"one sequence less", [](IndexFields& f) { --f.sequence_count; }, VerifyCheck::kIdxSize,
     kEnd - 12, -1},
    {"sequences huge", [](IndexFields& f) { f.sequence_count = ~uint64_t{0}; },
     VerifyCheck::kIdxSize, 18, -1},
    {"sequences whose size wraps", [](IndexFields& f) { f.sequence_count = uint64_t{1} << 62; },
     VerifyCheck::kIdxSize, 18, -1},
    {"no document index", [](IndexFields& f) { f.document_index_count = 0; },
     VerifyCheck::kDocumentCount, 26, -1},
    {"one document more", [](IndexFields& f) { ++f.document_index_count; }, VerifyCheck::kIdxSize,
     kEnd, -1},
    {"documents huge", [](IndexFields& f) { f.document_index_count = uint64_t{1} << 61; },
     VerifyCheck::kIdxSize, 18, -1},
    {"negative length", [](IndexFields& f) { f.lengths[3] = -1; }, VerifyCheck::kSequenceLengths,
     kLengths + 12, 3},
    {"most negative length",
     [](IndexFields& f) { f.lengths[4] = std::numeric_limits<int32_t>::min(); },
     VerifyCheck::kSequenceLengths, kLengths + 16, 4},
    {"longer sequence", [](IndexFields& f) { f.lengths[1] = 4; }, VerifyCheck::kSequencePointers,
     kPointers + 16, 2, 3},
    {"huge length", [](IndexFields& f) { f.lengths[1] = std::numeric_limits<int32_t>::max(); },
     VerifyCheck::kSequencePointers, kPointers + 16, 2, 3},
    {"first pointer", [](IndexFields& f) { f.pointers[0] = 2; }, VerifyCheck::kSequencePointers,
     kPointers, 0},
    {"overlapping pointer", [](IndexFields& f) { f.pointers[1] = 2; },
     VerifyCheck::kSequencePointers, kPointers + 8, 1},
    {"odd pointer", [](IndexFields& f) { f.pointers[3] = 11; }, VerifyCheck::kSequencePointers,
     kPointers + 24, 3},
    {"negative pointer", [](IndexFields& f) { f.pointers[4] = -12; },
     VerifyCheck::kSequencePointers, kPointers + 32, 4},
    {"huge pointer", [](IndexFields& f) { f.pointers[2] = std::numeric_limits<int64_t>::max(); },
     VerifyCheck::kSequencePointers, kPointers + 16, 2},
    {"first document index", [](IndexFields& f) { f.documents[0] = 1; },
     VerifyCheck::kDocumentIndices, kDocuments, 0},
    {"document index that falls", [](IndexFields& f) { f.documents[2] = 1; },
     VerifyCheck::kDocumentIndices, kDocuments + 16, 2},
    {"negative document index", [](IndexFields& f) { f.documents[1] = -1; },
     VerifyCheck::kDocumentIndices, kDocuments + 8, 1},
    {"huge document index",
     [](IndexFields& f) { f.documents[3] = std::numeric_limits<int64_t>::max(); },
     VerifyCheck::kDocumentIndices, kDocuments + 24, 3},
    {"last document index too small", [](IndexFields& f) { f.documents[4] = 4; },
     VerifyCheck::kDocumentIndices, kDocuments + 32, 4},
    {"last document index too large", [](IndexFields& f) { f.documents[4] = 6; },
     VerifyCheck::kDocumentIndices, kDocuments + 32, 4},
};

TEST_F(VerifyDatasetTest, NamesTheDamagedEntry) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    IndexFields fields = small_fields();
    damage.apply(fields);
    const VerifyReport report = verify(fields.bytes(), kSmallBin, {.vocab_size = 10, .eod = 9});
    ASSERT_FALSE(report.ok());
    const Problem& first = report.problems.front();
    EXPECT_EQ(first.check, damage.check) << first.message();
    EXPECT_EQ(first.byte_offset, damage.byte_offset) << first.message();
    EXPECT_EQ(first.index, damage.index < 0 ? std::vector<int64_t>{} : std::vector{damage.index})
        << first.message();
    EXPECT_EQ(first.count, damage.count) << first.message();
    EXPECT_EQ(first.file, folder_.path("set.idx"));
  }
}

TEST_F(VerifyDatasetTest, ExplainsCountsAndLengthsThatItCanInfer) {
  IndexFields fields = small_fields();
  fields.sequence_count = 500;
  EXPECT_THAT(verify(fields.bytes()).problems.front().likely_cause,
              HasSubstr("the sequence count at byte 18 is 500, should be 5"));
  fields = small_fields();
  fields.document_index_count = 0;
  EXPECT_THAT(verify(fields.bytes()).problems.front().likely_cause,
              HasSubstr("the document index count at byte 26 is 0, should be 5"));
  fields = small_fields();
  fields.lengths[1] = 77;
  EXPECT_THAT(verify(fields.bytes()).problems.front().likely_cause,
              HasSubstr("the length of sequence 1 at byte 38 is 77, should be 3"));
}

TEST_F(VerifyDatasetTest, CatchesIdxCutAtEveryByte) {
  const std::string whole = small_fields().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const VerifyReport report = verify(whole.substr(0, size), kSmallBin, {.eod = 9});
    ASSERT_FALSE(report.ok());
    const Problem& first = report.problems.front();
    EXPECT_EQ(first.check, size < 34 ? VerifyCheck::kHeader : VerifyCheck::kIdxSize);
    EXPECT_EQ(first.byte_offset, static_cast<int64_t>(size));
  }
}

TEST_F(VerifyDatasetTest, NamesTheArrayInWhichTheIdxEnds) {
  const std::string whole = small_fields().bytes();
  const auto place = [&](int64_t size) {
    return verify(whole.substr(0, static_cast<size_t>(size))).problems.front().subject;
  };
  EXPECT_EQ(place(20), "the file ends in the sequence count");
  EXPECT_EQ(place(kLengths), "the file ends in entry 0 of sequence_lengths");
  EXPECT_EQ(place(kPointers - 1), "the file ends in entry 4 of sequence_lengths");
  EXPECT_EQ(place(kPointers + 9), "the file ends in entry 1 of sequence_pointers");
  EXPECT_EQ(place(kEnd - 8), "the file ends in entry 4 of document_indices");
}

TEST_F(VerifyDatasetTest, CatchesBinCutAtEveryByteAndGrown) {
  for (size_t size = 0; size < kSmallBin.size(); ++size) {
    SCOPED_TRACE(size);
    const VerifyReport report =
        verify(small_fields().bytes(), kSmallBin.substr(0, size), {.vocab_size = 10});
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.problems.front().check, VerifyCheck::kBinSize);
    EXPECT_EQ(report.problems.front().byte_offset, static_cast<int64_t>(size));
  }
  const VerifyReport grown = verify(small_fields().bytes(), kSmallBin + "x");
  ASSERT_FALSE(grown.ok());
  EXPECT_EQ(grown.problems.front().check, VerifyCheck::kBinSize);
  EXPECT_THAT(grown.problems.front().likely_cause, IsEmpty());
}

TEST_F(VerifyDatasetTest, CatchesEveryFlippedBitOfTheIdx) {
  const std::string whole = small_fields().bytes();
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    SCOPED_TRACE(bit);
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto byte = static_cast<int64_t>(bit / 8);
    const VerifyReport report = verify(flipped);
    // Within its bounds, a document index may be anything.
    const bool may_pass = byte >= kDocuments + 8 && byte < kEnd - 8 && byte % 8 == kDocuments % 8;
    EXPECT_TRUE(!report.ok() || may_pass);
  }
}

TEST_F(VerifyDatasetTest, KnowsModes) {
  IndexFields fields = small_fields();
  fields.modes = {0, 1, 2, 3, 4};
  EXPECT_TRUE(verify(fields.bytes()).ok());
  EXPECT_TRUE(verify(fields.bytes()).multimodal);
  EXPECT_TRUE(verify(fields.bytes(), kSmallBin, {.multimodal = true}).ok());
  EXPECT_FALSE(verify(fields.bytes(), kSmallBin, {.multimodal = false}).ok());
  EXPECT_EQ(verify(small_fields().bytes(), kSmallBin, {.multimodal = true}).problems[0].subject,
            "the file ends in entry 0 of sequence_modes");
}

TEST_F(VerifyDatasetTest, NamesIdsOutsideTheVocabulary) {
  const VerifyReport report = verify(small_fields().bytes(), kSmallBin, {.vocab_size = 6});
  ASSERT_EQ(report.problems.size(), 1U);
  const Problem& problem = report.problems.front();
  EXPECT_EQ(problem.check, VerifyCheck::kVocabSize);
  EXPECT_EQ(problem.subject, "sequence 1, item 2");
  EXPECT_EQ(problem.byte_offset, 8);
  EXPECT_EQ(problem.expected, "an id in [0, 6)");
  EXPECT_EQ(problem.found, "9");
  EXPECT_EQ(problem.count, 5);
}

TEST_F(VerifyDatasetTest, NamesNegativeIds) {
  const std::string bin = bytes_string<int32_t>({1, -1, 2});
  const VerifyReport report =
      verify(index_fields(4, {3}, {0, 1}).bytes(), bin, {.vocab_size = 1000});
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems.front().subject, "sequence 0, item 1");
  EXPECT_EQ(report.problems.front().found, "-1");
}

TEST_F(VerifyDatasetTest, FindsBadIdsInEveryPieceWithAnyNumberOfWorkers) {
  const int32_t length = 3'000'000;
  const IndexFields fields = index_fields(4, {length}, {0, 1});
  for (const size_t place : {size_t{0}, size_t{262'143}, size_t{262'144}, size_t{2'999'999}}) {
    std::vector<int32_t> items(static_cast<size_t>(length), 7);
    items[place] = 8;
    for (const int workers : {1, 3}) {
      const VerifyReport report =
          verify(fields.bytes(), bytes_string(items), {.vocab_size = 8, .workers = workers});
      ASSERT_EQ(report.problems.size(), 1U);
      EXPECT_THAT(report.problems.front().index, ElementsAre(static_cast<int64_t>(place)));
      EXPECT_EQ(report.problems.front().count, 1);
    }
  }
}

TEST_F(VerifyDatasetTest, NamesDocumentsWithoutTheirEnd) {
  const VerifyReport report = verify(small_fields().bytes(), kSmallBin, {.eod = 9, .workers = 2});
  EXPECT_TRUE(report.ok()) << report.problems.front().message();
  std::string bin = kSmallBin;
  bin[10] = 8;  // the only item of sequence 3, the last of document 1
  const VerifyReport wrong = verify(small_fields().bytes(), bin, {.eod = 9});
  ASSERT_EQ(wrong.problems.size(), 1U);
  EXPECT_EQ(wrong.problems.front().check, VerifyCheck::kEod);
  EXPECT_EQ(wrong.problems.front().subject, "document 1, sequence 3");
  EXPECT_EQ(wrong.problems.front().byte_offset, 10);
  EXPECT_EQ(wrong.problems.front().found, "8");
  const VerifyReport empty = verify(index_fields(kUint16Code, {1, 0}, {0, 2}).bytes(),
                                    bytes_string<uint16_t>({9}), {.eod = 9});
  ASSERT_EQ(empty.problems.size(), 1U);
  EXPECT_EQ(empty.problems.front().found, "an empty last sequence");
}

TEST_F(VerifyDatasetTest, NamesTheMissingEndOfDocumentTokens) {
  const VerifyReport report =
      verify(small_fields().bytes(), kSmallBin + bytes_string<uint16_t>({9, 9, 9}));
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_THAT(report.problems.front().likely_cause,
              HasSubstr("one item for each of the 3 documents with sequences"));
}

TEST_F(VerifyDatasetTest, CannotCheckIdsOfFloats) {
  write_dataset(folder_.path("set"), index_fields(6, {1}, {0, 1}).bytes(),
                bytes_string<double>({1}));
  const auto report = verify_dataset(folder_.path("set"), {.vocab_size = 10});
  EXPECT_EQ(report.error().code(), StatusCode::kInvalidArgument);
}

TEST_F(VerifyDatasetTest, StopsWhenAsked) {
  write_dataset(folder_.path("set"), small_fields().bytes(), kSmallBin);
  const auto report = verify_dataset(
      folder_.path("set"), {.vocab_size = 10, .progress = [](const Progress&) { return false; }});
  EXPECT_EQ(report.error().code(), StatusCode::kCancelled);
}

TEST_F(VerifyDatasetTest, TheSearchForDocumentEndsTellsItsProgressAndStopsWhenAsked) {
  write_dataset(folder_.path("set"), small_fields().bytes(), kSmallBin);
  std::vector<Progress> told;
  VerifyOptions options{.eod = 9, .progress = [&told](const Progress& progress) {
                          told.push_back(progress);
                          return true;
                        }};
  EXPECT_TRUE(verify_dataset(folder_.path("set"), options).has_value());
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().bytes, told.back().total_bytes);
  EXPECT_EQ(told.back().total_bytes, static_cast<int64_t>(kSmallBin.size()));
  options.progress = [](const Progress&) { return false; };
  EXPECT_EQ(verify_dataset(folder_.path("set"), options).error().code(), StatusCode::kCancelled);
}

TEST_F(VerifyDatasetTest, AFileThatIsMissingIsAnError) {
  EXPECT_EQ(verify_dataset(folder_.path("none"), {}).error().code(), StatusCode::kNotFound);
  test::write_file(folder_.path("half.idx"), small_fields().bytes());
  EXPECT_THAT(verify_dataset(folder_.path("half"), {}).error().message(), HasSubstr("half.bin"));
}

}  // namespace
}  // namespace meg::dataset
