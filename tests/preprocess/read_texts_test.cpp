#include "libmeg/preprocess/read_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/io/compressed.h"
#include "tests/temp_folder.h"

namespace meg::preprocess {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Texts = std::vector<std::string>;

class Collector : public TextVisitor {
 public:
  Status visit(std::string_view text) override {
    if (text == refused) return Status(StatusCode::kIoError, "disk: full");
    texts.emplace_back(text);
    return {};
  }

  Texts texts;
  std::string refused = "refused";
};

struct Reading {
  Result<ReadTextsSummary> summary;
  Texts texts;  // of all visitors
};

Reading read(const ReadTextsOptions& options, size_t visitors = 1,
             const ProgressCallback& progress = {}) {
  std::vector<Collector> collectors(visitors);
  std::vector<TextVisitor*> all;
  for (Collector& collector : collectors) all.push_back(&collector);
  Reading reading{read_texts(options, all, progress), {}};
  for (const Collector& collector : collectors) {
    reading.texts.insert(reading.texts.end(), collector.texts.begin(), collector.texts.end());
  }
  return reading;
}

std::string lines_of(const Texts& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += "{\"text\": \"" + text + "\"}\n";
  return lines;
}

class ReadTextsTest : public testing::Test {
 protected:
  void write(const std::string& content) {
    test::write_file(folder_.path("in.jsonl"), content);
    options_.inputs = {folder_.path("in.jsonl")};
    options_.chunk_bytes = 64;
  }

  test::TempFolder folder_;
  ReadTextsOptions options_;
};

TEST_F(ReadTextsTest, HandsEveryTextToOneOfTheVisitors) {
  Texts texts;
  for (int i = 0; i < 500; ++i) texts.push_back("text " + std::to_string(i));
  std::sort(texts.begin(), texts.end());
  write(lines_of(texts));
  for (const size_t visitors : {1, 2, 7}) {
    Reading reading = read(options_, visitors);
    ASSERT_TRUE(reading.summary.has_value()) << reading.summary.error().message();
    std::sort(reading.texts.begin(), reading.texts.end());
    EXPECT_EQ(reading.texts, texts);
    EXPECT_EQ(reading.summary->documents, 500);
  }
}

TEST_F(ReadTextsTest, NamesTheFirstBadLineForAnyVisitors) {
  Texts texts(300, "good");
  texts[120] = texts[121] = texts[290] = "bad \\x";
  write(lines_of(texts));
  for (int round = 0; round < 20; ++round) {
    const Reading reading = read(options_, 1 + static_cast<size_t>(round) % 5);
    ASSERT_FALSE(reading.summary.has_value());
    EXPECT_THAT(reading.summary.error().message(),
                StartsWith(options_.inputs[0] + ": line 121, byte "));
  }
}

TEST_F(ReadTextsTest, SkipsBadLinesAndNamesTheFirst) {
  Texts texts(300, "good");
  for (size_t i = 0; i < 300; i += 10) texts[i] = "bad \\x";
  write(lines_of(texts));
  options_.on_error = OnError::kSkip;
  const Reading reading = read(options_, 3);
  ASSERT_TRUE(reading.summary.has_value());
  EXPECT_EQ(reading.summary->skipped_lines, 30);
  EXPECT_EQ(reading.summary->documents, 270);
  EXPECT_THAT(reading.summary->skipped_examples,
              ElementsAre(HasSubstr("line 1,"), HasSubstr("line 11,"), HasSubstr("line 21,"),
                          HasSubstr("line 31,"), HasSubstr("line 41,")));
}

TEST_F(ReadTextsTest, StopsAfterSoManyDocuments) {
  write(lines_of({"a", "b", "c", "bad \\x"}));
  options_.max_documents = 3;
  const Reading reading = read(options_, 4);
  ASSERT_TRUE(reading.summary.has_value()) << reading.summary.error().message();
  EXPECT_THAT(reading.texts, ElementsAre("a", "b", "c"));
  EXPECT_EQ(reading.summary->documents, 3);
}

TEST_F(ReadTextsTest, EndsWithADamageBehindTheDocumentsThatAreWanted) {
  const std::string packed = test::zstd_of(lines_of({"a", "b"})) + test::zstd_of(lines_of({"c"}));
  write(packed.substr(0, packed.size() - 1));
  EXPECT_THAT(read(options_).summary.status().message(), HasSubstr("ends in the middle"));
  options_.max_documents = 2;
  EXPECT_THAT(read(options_).texts, ElementsAre("a", "b"));
  EXPECT_TRUE(read(options_).summary.has_value());
}

TEST_F(ReadTextsTest, EndsWithTheErrorOfAVisitor) {
  write(lines_of({"a", "refused", "c"}));
  options_.on_error = OnError::kSkip;
  const Reading reading = read(options_, 2);
  ASSERT_FALSE(reading.summary.has_value());
  EXPECT_EQ(reading.summary.error().message(), "disk: full");
}

TEST_F(ReadTextsTest, IsCancelledByItsProgress) {
  write(lines_of(Texts(1000, "text")));
  const Reading reading = read(options_, 2, [](const Progress&) { return false; });
  ASSERT_FALSE(reading.summary.has_value());
  EXPECT_EQ(reading.summary.error().code(), StatusCode::kCancelled);
}

/// What visitors do in order goes into one list that they share.
class OrderedCollector : public TextVisitor {
 public:
  /// ends: receives where each part ends, and how many texts were written then.
  OrderedCollector(Texts& settled, Texts& written, size_t wanted,
                   std::vector<std::pair<ReadPosition, size_t>>& ends)
      : settled_(settled), written_(written), wanted_(wanted), ends_(ends) {}

  void begin_part(int64_t /*number*/) override { part_.clear(); }

  Status begin_document(std::string_view json, bool has_list,
                        const dataset::DocumentPlace& /*place*/) override {
    json_ = json;
    if (!has_list) return {};
    return Status(StatusCode::kCorruption, "byte 1: expected no list");
  }

  Status visit(std::string_view text) override {
    part_.push_back(std::string(text) + " of " + std::string(json_.substr(0, 7)));
    return {};
  }

  Result<bool> settle() override {
    settled_.insert(settled_.end(), part_.begin(), part_.end());
    return settled_.size() < wanted_;
  }

  Status write(const ReadPosition& end) override {
    written_.insert(written_.end(), part_.begin(), part_.end());
    ends_.emplace_back(end, written_.size());
    return {};
  }

 private:
  Texts& settled_;
  Texts& written_;
  size_t wanted_;
  std::vector<std::pair<ReadPosition, size_t>>& ends_;
  std::string_view json_;
  Texts part_;
};

TEST_F(ReadTextsTest, EndsPartsInTheOrderOfTheInput) {
  Texts texts, expected;
  for (int i = 0; i < 2000; ++i) {
    texts.push_back("text " + std::to_string(i));
    expected.push_back(texts.back() + " of {\"text\"");
  }
  options_.in_order = true;
  const auto read_in_order = [&](size_t visitors, size_t wanted) {
    Texts settled, written;
    std::vector<std::pair<ReadPosition, size_t>> ends;
    std::vector<OrderedCollector> collectors(visitors, {settled, written, wanted, ends});
    std::vector<TextVisitor*> all;
    for (OrderedCollector& collector : collectors) all.push_back(&collector);
    const auto summary = read_texts(options_, all, {});
    if (summary.has_value()) {
      EXPECT_EQ(settled, written);
    }
    return std::pair(summary.status().message(), written);
  };
  for (const size_t visitors : {1, 2, 7}) {
    write(lines_of(texts));
    EXPECT_EQ(read_in_order(visitors, 1 << 20), std::pair(std::string(), expected)) << visitors;
    // What comes after enough documents does not count: neither a bad line nor a list.
    for (const std::string bad : {"no json\n", "{\"text\": []}\n"}) {
      write(lines_of(texts) + bad + lines_of(texts));
      const auto [error, written] = read_in_order(visitors, 1000);
      EXPECT_EQ(error, "");
      EXPECT_TRUE(written.size() >= 1000 && written.size() < 1010);
      EXPECT_TRUE(std::equal(written.begin(), written.end(), expected.begin()));
      EXPECT_THAT(read_in_order(visitors, 1 << 20).first,
                  HasSubstr(": line 2001, byte 1: expected "));
    }
  }
}

TEST_F(ReadTextsTest, GoesOnWhereAPartEnded) {
  Texts texts;
  for (int i = 0; i < 400; ++i) texts.push_back("text " + std::to_string(i));
  write(lines_of(texts) + "no json\n\n" + lines_of(texts) + "none\n" + lines_of(texts));
  options_.inputs.push_back(options_.inputs.front());
  options_.in_order = true;
  options_.on_error = OnError::kSkip;
  options_.chunk_bytes = 700;
  const auto read_from = [&](const ReadPosition& begin, Texts& written) {
    Texts settled;
    std::vector<std::pair<ReadPosition, size_t>> ends;
    std::vector<OrderedCollector> collectors(2, {settled, written, 1 << 20, ends});
    std::vector<TextVisitor*> all;
    for (OrderedCollector& collector : collectors) all.push_back(&collector);
    options_.start_at = begin;
    const auto summary = read_texts(options_, all, {});
    EXPECT_TRUE(summary.has_value());
    return std::pair(*summary, ends);
  };
  const auto text_of = [](const ReadTextsSummary& summary) {
    std::string text =
        std::to_string(summary.documents) + " " + std::to_string(summary.input_bytes) + " " +
        std::to_string(summary.text_bytes) + " " + std::to_string(summary.skipped_lines);
    for (const std::string& example : summary.skipped_examples) text += "\n" + example;
    return text;
  };
  Texts whole;
  const auto [summary, ends] = read_from({}, whole);
  EXPECT_EQ(whole.size(), 2400U);
  EXPECT_EQ(summary.skipped_lines, 4);
  EXPECT_THAT(summary.skipped_examples,
              testing::ElementsAre(HasSubstr("line 401, "), HasSubstr("line 803, "),
                                   HasSubstr("line 401, "), HasSubstr("line 803, ")));
  for (size_t i = 0; i < ends.size(); i += 7) {
    Texts rest;
    const auto resumed = read_from(ends[i].first, rest);
    ASSERT_EQ(rest.size(), whole.size() - ends[i].second);
    ASSERT_TRUE(std::equal(rest.begin(), rest.end(),
                           whole.begin() + static_cast<std::ptrdiff_t>(ends[i].second)));
    ASSERT_EQ(text_of(resumed.first), text_of(summary)) << i;
  }
}

TEST_F(ReadTextsTest, RefusesWrongOptions) {
  write(lines_of({"a"}));
  options_.json_keys = {"text", "text"};
  EXPECT_THAT(read(options_).summary.error().message(), HasSubstr("`json_keys`: found text twice"));
  options_.json_keys = {"text"};
  options_.max_documents = 0;
  EXPECT_THAT(read(options_).summary.error().message(), HasSubstr("`max_documents`"));
  EXPECT_THAT(read({}).summary.error().message(), HasSubstr("`input`: expected at least one file"));
}

}  // namespace
}  // namespace meg::preprocess
