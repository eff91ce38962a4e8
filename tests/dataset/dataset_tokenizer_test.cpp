// What stands beside a dataset of the tokenizer that made it.

#include "libmeg/dataset/dataset_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/merge_datasets.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/dataset/shard_run.h"
#include "tests/temp_folder.h"

namespace meg::dataset {
namespace {

using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

const DatasetTokenizer kGpt2{.type = "GPT2BPETokenizer", .identity = "0123abc", .vocab_size = 300};
const DatasetTokenizer kOther{.type = "TikTokenizer", .identity = "4567def", .vocab_size = 400};

std::string write(const TempFolder& folder, const std::string& name,
                  const std::optional<DatasetTokenizer>& tokenizer, const ShardRun& run = {}) {
  const std::string prefix = folder.path(name);
  auto builder = IndexedDatasetBuilder::create(
      prefix, {.dtype = DType::kUint16, .tokenizer = tokenizer, .shard_run = run});
  EXPECT_TRUE(builder.has_value()) << builder.status().message();
  EXPECT_TRUE(builder->end_document().ok());
  EXPECT_TRUE(builder->finish().ok());
  return prefix;
}

/// Empty where nothing is said.
std::optional<DatasetTokenizer> read(const std::string& prefix) {
  const auto tokenizer = read_dataset_tokenizer(prefix);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.status().message();
  return *tokenizer;
}

TEST(DatasetTokenizer, ComesAndGoesWithTheDataset) {
  const TempFolder folder;
  const std::string prefix = write(folder, "a", kGpt2);
  EXPECT_EQ(read(prefix + ".bin"), kGpt2);
  EXPECT_EQ(read(write(folder, "a", kOther)), kOther);
  EXPECT_EQ(read(write(folder, "a", std::nullopt)), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(folder.path("a.libmeg")));
}

TEST(DatasetTokenizer, TakesAnOlderProvenanceAway) {
  const TempFolder folder;
  const std::string prefix = write(folder, "a", kGpt2);
  test::write_file(provenance_path(prefix), "of the older dataset");
  write(folder, "a", kGpt2);
  EXPECT_FALSE(std::filesystem::exists(provenance_path(prefix)));
}

/// Kept files of a dataset whose process was killed before it renamed them.
IndexedDatasetBuilder::Finished write_kept(const std::string& prefix) {
  const IndexedDatasetBuilder::Options options{.dtype = DType::kUint16,
                                               .resume_at = IndexedDatasetBuilder::Mark{}};
  auto builder = IndexedDatasetBuilder::create(prefix, options);
  EXPECT_TRUE(builder.has_value()) << builder.status().message();
  EXPECT_TRUE(builder->end_document().ok());
  const auto mark = builder->mark();
  IndexedDatasetBuilder* const one = &*builder;
  const auto kill = [] { return Status(StatusCode::kIoError, "killed"); };
  EXPECT_FALSE(IndexedDatasetBuilder::finish_all({&one, 1}, kill).ok());
  return {.prefix = prefix, .dtype = DType::kUint16, .mark = *mark, .tokenizer = kOther};
}

TEST(DatasetTokenizer, ComesWhenAKilledProcessIsGoneOnWith) {
  const TempFolder folder;
  const std::string prefix = write(folder, "a", kGpt2);
  test::write_file(provenance_path(prefix), "of the older dataset");
  const IndexedDatasetBuilder::Finished kept = write_kept(prefix);
  EXPECT_EQ(read(prefix), kGpt2);
  ASSERT_TRUE(IndexedDatasetBuilder::publish_all({&kept, 1}).ok());
  EXPECT_EQ(read(prefix), kOther);
  EXPECT_FALSE(std::filesystem::exists(provenance_path(prefix)));
  test::write_file(provenance_path(prefix), "of this dataset");
  ASSERT_TRUE(IndexedDatasetBuilder::publish_all({&kept, 1}).ok());
  EXPECT_TRUE(std::filesystem::exists(provenance_path(prefix))) << "all was done before";
}

TEST(DatasetTokenizer, NamesBothWhereTheyDiffer) {
  const TempFolder folder;
  const std::string prefix = write(folder, "a", kGpt2);
  EXPECT_TRUE(check_dataset_tokenizer(prefix, kGpt2).ok());
  EXPECT_TRUE(check_dataset_tokenizer(write(folder, "b", std::nullopt), kGpt2).ok());
  const Status status = check_dataset_tokenizer(prefix, kOther);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            prefix +
                ".libmeg: the dataset was made with another tokenizer: expected "
                "\"GPT2BPETokenizer\" of 300 tokens (\"0123abc\"), found \"TikTokenizer\" of "
                "400 tokens (\"4567def\")");
}

TEST(DatasetTokenizer, IsComparedForAllDatasetsWithOneThatIsAskedForOnce) {
  const TempFolder folder;
  const std::vector<std::string> prefixes = {write(folder, "a", std::nullopt),
                                             write(folder, "b", kGpt2), write(folder, "c", kOther)};
  int asked = 0;
  const auto check = [&](size_t count, const std::optional<DatasetTokenizer>& given) {
    return check_dataset_tokenizers(std::span(prefixes).first(count), [&] {
      ++asked;
      return Result<std::optional<DatasetTokenizer>>(given);
    });
  };
  EXPECT_TRUE(check(1, kOther).ok());
  EXPECT_EQ(asked, 0) << "no dataset names a tokenizer";
  EXPECT_TRUE(check(2, kGpt2).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(check(3, std::nullopt).ok());
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(check(3, kGpt2).message(), HasSubstr("c.libmeg: the dataset was made"));
  EXPECT_THAT(check(3, kOther).message(), HasSubstr("b.libmeg: the dataset was made"));
  const Status failed =
      check_dataset_tokenizers(prefixes, []() -> Result<std::optional<DatasetTokenizer>> {
        return Status(StatusCode::kNotFound, "vocab.json");
      });
  EXPECT_EQ(failed.message(), "vocab.json");
}

TEST(DatasetTokenizer, IsRefusedWhereItsFileIsDamagedWhateverIsGiven) {
  const TempFolder folder;
  const std::vector<std::string> prefixes = {write(folder, "a", kGpt2), write(folder, "b", kGpt2)};
  test::write_file(folder.path("b.libmeg"), "{");
  const Status status = check_dataset_tokenizers(
      prefixes, [] { return Result<std::optional<DatasetTokenizer>>(std::nullopt); });
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("b.libmeg"));
}

TEST(DatasetTokenizer, IsCarriedByAMergeOfEqualOnes) {
  const TempFolder folder;
  const std::vector<std::string> same = {write(folder, "a", kGpt2), write(folder, "b", kGpt2)};
  const std::string other = write(folder, "c", kOther);
  const std::string unknown = write(folder, "d", std::nullopt);
  const std::string out = folder.path("out");
  ASSERT_TRUE(merge_datasets(same, out, {}).has_value());
  EXPECT_EQ(read(out), kGpt2);
  for (const std::string& third : {other, unknown}) {
    ASSERT_TRUE(merge_datasets({same[0], third}, out, {}).has_value());
    EXPECT_EQ(read(out), std::nullopt);
  }
}

TEST(DatasetTokenizer, IsNoDatasetOfAFolder) {
  const TempFolder folder;
  write(folder, "a", kGpt2);
  const auto prefixes = dataset_prefixes_in(folder.path());
  ASSERT_TRUE(prefixes.has_value()) << prefixes.status().message();
  EXPECT_THAT(*prefixes, ElementsAre(folder.path("a")));
}

TEST(DatasetTokenizer, RefusesDamage) {
  struct Case {
    const char* json;
    const char* message;
  };

  const Case cases[] = {
      {"", "a JSON object"},
      {"{", "a JSON object"},
      {"[1]", "a JSON object with a \"tokenizer\""},
      {R"({"tokenizer": 5})", "a string \"tokenizer\".\"type\""},
      {R"({"tokenizer": {"type": "T"}})", "a string \"tokenizer\".\"identity\""},
      {R"({"tokenizer": {"type": "T", "identity": ""}})", "\"tokenizer\".\"identity\""},
      {R"({"tokenizer": {"type": "T", "identity": "i", "vocab_size": "x"}})", "an integer"},
      {R"({"tokenizer": {"type": "T", "identity": "i", "vocab_size": -1}})", "an integer"},
      {R"({"tokenizer": {"type": "T", "identity": "i", "vocab_size": 1e300}})", "an integer"},
      {R"({"tokenizer": {"type": "T", "identity": "\xFF", "vocab_size": 1}})", "a JSON object"},
  };
  const TempFolder folder;
  for (const Case& one : cases) {
    test::write_file(folder.path("a.libmeg"), one.json);
    const Status status = read_dataset_tokenizer(folder.path("a")).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << one.json;
    EXPECT_THAT(status.message(), HasSubstr(one.message));
  }
  test::write_file(folder.path("a.libmeg"), std::string((size_t{1} << 20) + 1, ' '));
  EXPECT_THAT(read_dataset_tokenizer(folder.path("a")).status().message(), HasSubstr("a MiB"));
  std::filesystem::create_directory(folder.path("b.libmeg"));
  EXPECT_THAT(read_dataset_tokenizer(folder.path("b")).status().message(), HasSubstr("b.libmeg"));
}

/// What merging shards 0 and 1 of 2 says.
std::string merge_error(const std::optional<DatasetTokenizer>& tokenizer0, const ShardRun& run0,
                        const std::optional<DatasetTokenizer>& tokenizer1, const ShardRun& run1) {
  const TempFolder folder;
  const std::vector<std::string> shards = {
      write(folder, "x_shard00000of00002_text_document", tokenizer0, run0),
      write(folder, "x_shard00001of00002_text_document", tokenizer1, run1)};
  const auto summary = merge_datasets(shards, folder.path("out"), {});
  EXPECT_EQ(summary.has_value(), std::filesystem::exists(folder.path("out.bin")));
  if (!summary.has_value()) return summary.error().message();
  const auto run = read_shard_run(folder.path("out"));
  EXPECT_TRUE(run.has_value() && run->empty());
  return "";
}

TEST(ShardRun, NamesTheFirstDifferenceOfTwoShards) {
  const ShardRun run = {{"append_eod", "true"}, {"inputs", "2 of 30 bytes \u00e9\"\n"}};
  EXPECT_EQ(merge_error(kGpt2, run, kGpt2, run), "");
  EXPECT_EQ(merge_error({}, run, {}, run), "");
  EXPECT_THAT(merge_error(kGpt2, run, kGpt2, {{"append_eod", "true"}, {"inputs", "2 of 20 bytes"}}),
              HasSubstr("x_shard00001of00002_text_document: expected a shard of the same run as "));
  EXPECT_THAT(merge_error({}, run, {}, {{"append_eod", "false"}, run[1]}),
              HasSubstr("found append_eod false, there true"));
  EXPECT_THAT(merge_error({}, run, {}, {run[0], run[1], {"lang", "german"}}),
              HasSubstr("found lang german, there nothing"));
  EXPECT_THAT(merge_error({}, run, {}, {run[0]}), HasSubstr("found inputs nothing, there 2 of"));
  EXPECT_THAT(
      merge_error(kGpt2, run, kOther, run),
      HasSubstr("found tokenizer \"TikTokenizer\" of 400 tokens (\"4567def\"), there \"GPT2BPE"));
  // Nothing is known of others.
  EXPECT_EQ(merge_error(kGpt2, run, {}, {}), "");
}

}  // namespace
}  // namespace meg::dataset
