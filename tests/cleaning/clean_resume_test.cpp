#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "libmeg/cleaning/clean.h"
#include "tests/io/compressed.h"
#include "tests/preprocess/byte_tokenizer.h"
#include "tests/temp_folder.h"

namespace meg::cleaning {
namespace {

namespace fs = std::filesystem;

using test::ByteTokenizer;
using testing::HasSubstr;

/// Documents of which some are equal, some nearly equal, and some lines bad.
std::string lines_of(std::mt19937& random, int count) {
  std::vector<std::string> texts;
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string text;
    if (i > 100 && random() % 4 == 0) {
      text = texts[random() % texts.size()];
      if (random() % 2 == 0) text += " and more of it";
    } else {
      const size_t words = 3 + random() % 40;
      for (size_t word = 0; word < words; ++word) {
        text += word == 0 ? "" : word % 9 == 0 ? "\\n" : " ";
        // Of letters alone: near duplicates take all numbers for the same.
        for (int letter = 0; letter < 3; ++letter) text += static_cast<char>('a' + random() % 14);
      }
    }
    texts.push_back(text);
    lines += fmt::format("{{\"text\": \"{}\", \"id\": {}}}\n", text, random() % 5000);
    if (random() % 70 == 0) lines += "{\n";  // skipped
  }
  return lines;
}

/// Kills that every case tries; MEG_KILLS gives another number.
int kills_of_a_case() {
  const char* const asked = std::getenv("MEG_KILLS");
  return asked == nullptr ? 6 : std::atoi(asked);
}

struct Case {
  const char* name;
  std::function<void(CleanOptions&)> set;
};

void write_dataset(CleanOptions& options) {
  static const ByteTokenizer tokenizer;
  options.output = options.output.substr(0, options.output.rfind('.'));
  options.tokenizer = &tokenizer;
  options.dataset.emplace();
  options.dataset->append_eod = true;
  options.dataset->provenance = true;
}

const Case kCases[] = {
    {"Lines", [](CleanOptions& options) { options.sample = 0.7; }},
    {"LimitedLines", [](CleanOptions& options) { options.max_documents = 2500; }},
    {"ExactDuplicatesInZstd",
     [](CleanOptions& options) {
       options.output += ".zst";
       options.exact_duplicates = true;
     }},
    {"RepeatedLinesInGzip",
     [](CleanOptions& options) {
       options.output += ".gz";
       options.exact_duplicates = true;
       options.duplicate_unit = DuplicateUnit::kLine;
     }},
    {"NearDuplicatesShuffled",
     [](CleanOptions& options) {
       options.near_duplicates = true;
       options.kept_duplicate = KeptDuplicate::kLongest;
       options.shuffle = true;
       options.id_prefix = "id";
     }},
    {"SplitsOfBothDuplicates",
     [](CleanOptions& options) {
       options.exact_duplicates = options.near_duplicates = true;
       options.splits = {{"train", 0.8}, {"valid", 0.2}};
       options.output = options.output.substr(0, options.output.rfind('.')) + "_{split}.jsonl";
     }},
    {"Dataset", write_dataset},
    {"ShuffledDatasetWithLimit",
     [](CleanOptions& options) {
       write_dataset(options);
       options.exact_duplicates = true;
       options.shuffle = true;
       options.max_documents = 3000;
     }},
    {"SplitDatasetOfNearDuplicates",
     [](CleanOptions& options) {
       write_dataset(options);
       options.near_duplicates = true;
       options.splits = {{"train", 0.8}, {"valid", 0.2}};
       options.output += "_{split}";
     }},
};

class CleanResumeTest : public testing::TestWithParam<Case> {
 protected:
  CleanResumeTest() {
    std::mt19937 random(7);
    test::write_file(folder_.path("a.jsonl"), lines_of(random, 6000));
    test::write_file(folder_.path("b.jsonl.gz"), test::gzip_of(lines_of(random, 1500)));
    test::write_file(folder_.path("c.jsonl"), lines_of(random, 1500));
    for (const char* name : {"a.jsonl", "b.jsonl.gz", "c.jsonl"}) {
      options_.inputs.push_back(folder_.path(name));
    }
    options_.on_error = preprocess::OnError::kSkip;
    options_.chunk_bytes = 20000;
    options_.samples = 3;
    options_.memory = int64_t{1} << 20;
    options_.min_chars = 30;
    options_.workers = 2;
    options_.resume_identity = {{"--flag", "value"}};
  }

  /// Without a kill, in another folder.
  void run_whole(const Case& one) {
    options_.output = folder_.path("whole/set.jsonl");
    one.set(options_);
    const auto begin = std::chrono::steady_clock::now();
    const auto whole = clean(options_, {});
    ASSERT_TRUE(whole.has_value()) << whole.error().message();
    took_ = std::chrono::steady_clock::now() - begin;
    text_ = text_of(*whole);
    ASSERT_GT(whole->kept, 1000);
    ASSERT_GT(whole->skipped_lines, 10);
    options_.output = folder_.path("out/set.jsonl");
    one.set(options_);
    options_.resume = true;
  }

  /// A folder's files, without those of runs that are not complete.
  std::map<std::string, std::string> files(const std::string& folder) const {
    std::map<std::string, std::string> all;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder_.path(folder), missing)) {
      const std::string name = entry.path().filename();
      const bool is_other = name.find(".unfinished") != name.npos || name.ends_with(".resume") ||
                            name.find(".partial-") != name.npos || name.ends_with(".lock");
      if (!is_other) all[name] = test::read_file(entry.path());
    }
    return all;
  }

  std::string journal() const { return options_.output + ".resume/journal"; }

  /// All that is said of a run.
  static std::string text_of(const CleanSummary& summary) {
    std::string text =
        fmt::format("{} {} {} {} {} {} {} {} | {} | {} |", summary.documents, summary.input_bytes,
                    summary.text_bytes, summary.kept, summary.kept_text_bytes, summary.output_bytes,
                    summary.skipped_lines, summary.clusters, fmt::join(summary.lengths_read, " "),
                    fmt::join(summary.lengths_kept, " "));
    for (const DuplicateCluster& cluster : summary.largest_clusters) {
      text += fmt::format("{} {} {} |", cluster.documents, cluster.kept, cluster.removed);
    }
    text += fmt::format("{} {} | {} |", summary.candidate_pairs, summary.joined_pairs,
                        fmt::join(summary.skipped_examples, " "));
    for (const StepCounts& step : summary.steps) {
      text += fmt::format("\n{} {} {} {} {} {} {}", step.name, step.documents, step.bytes,
                          step.removed, step.changed, step.removed_bytes, step.removed_pieces);
      for (const auto& [reason, count] : step.reasons) text += fmt::format(" {}={}", reason, count);
      for (const RemovedSample& one : step.samples) text += " " + one.reason + ": " + one.text;
    }
    for (const OutputCounts& output : summary.outputs) {
      text += fmt::format("\n{} {}", output.documents, output.text_bytes);
    }
    return text;
  }

  std::string error() {
    const auto result = clean(options_, {});
    return result.has_value() ? "" : result.error().message();
  }

  /// Runs in a process that is killed after that time, or that ends before; whether it was killed.
  bool killed_after(std::chrono::microseconds time) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto result = clean(options_, {});
      if (!result.has_value()) std::fprintf(stderr, "%s\n", result.error().message().c_str());
      ::_exit(result.has_value() ? 0 : 1);
    }
    std::this_thread::sleep_for(time);
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }

  void expect_whole() {
    const auto result = clean(options_, {});
    ASSERT_TRUE(result.has_value()) << result.error().message();
    EXPECT_EQ(files("out"), files("whole"));
    EXPECT_EQ(text_of(*result), text_);
    for (const auto& entry : fs::directory_iterator(folder_.path("out"))) {
      const std::string name = entry.path().filename();
      EXPECT_EQ(name.find(".unfinished"), name.npos) << name;
      EXPECT_EQ(name.find(".partial-"), name.npos) << name;
    }
    for (const char* name : {"held", "digests", "signatures"}) {
      EXPECT_FALSE(fs::exists(options_.output + ".resume/" + name)) << name;
    }
  }

  test::TempFolder folder_;
  CleanOptions options_;
  std::string text_;
  std::chrono::steady_clock::duration took_{};
};

TEST_P(CleanResumeTest, GoesOnToTheSameBytesAfterKills) {
  run_whole(GetParam());
  const auto whole = files("whole");
  std::mt19937 random(std::random_device{}());
  int kills = 0;
  while (kills < kills_of_a_case()) {
    fs::remove_all(folder_.path("out"));
    const auto most = std::chrono::duration_cast<std::chrono::microseconds>(took_).count();
    do {
      options_.workers = random() % 2 == 0 ? 1 : 4;
      options_.checkpoint_interval = std::chrono::milliseconds(random() % 3 * 10);
      // The last part of a run takes longer with its checkpoints.
    } while (killed_after(std::chrono::microseconds(random() % (2 * most))) && ++kills > 0 &&
             kills < kills_of_a_case());
    // What has its final name is complete.
    for (const auto& [name, bytes] : files("out")) EXPECT_EQ(bytes, whole.at(name)) << name;
    expect_whole();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CleanResumeTest, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

class CleanResumeOnceTest : public CleanResumeTest {
 protected:
  /// Fails in the last input, with checkpoints before.
  void fail_late() {
    run_whole(kCases[2]);
    options_.checkpoint_interval = {};
    options_.workers = 1;
    const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(took_);
    for (int turn = 0; !killed_after(whole * (4 + turn % 4) / 8) || !has_come_far(); ++turn) {
      fs::remove_all(folder_.path("out"));
    }
  }

  /// Whether the journal has a checkpoint behind the first documents, on a busy machine too.
  bool has_come_far() const {
    if (!fs::exists(journal())) return false;
    const std::string text = test::read_file(journal());
    return text.find("\"digests\":") != text.npos && text.find("\"digests\":0,") == text.npos &&
           text.find("\"outputs\":[{\"bytes\":0,") == text.npos;
  }
};

TEST_F(CleanResumeOnceTest, DoesNothingWhereAllWasDone) {
  run_whole(kCases[2]);
  expect_whole();
  const std::string path = options_.output;
  const auto written = fs::last_write_time(path);
  const auto again = clean(options_, {});
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->was_finished);
  expect_whole();
  EXPECT_EQ(fs::last_write_time(path), written);
}

TEST_F(CleanResumeOnceTest, PublishesWhatIsLeft) {
  run_whole(kCases[5]);
  expect_whole();
  for (const char* name : {"out/set_train.jsonl", "out/set_valid.jsonl"}) {
    fs::rename(folder_.path(name), folder_.path(name) + ".unfinished");
    expect_whole();
  }
  test::write_file(folder_.path("out/set_valid.jsonl"), "other");
  EXPECT_THAT(error(), HasSubstr("set_valid.jsonl: expected"));
  EXPECT_THAT(error(), HasSubstr("says that the run is complete: remove it to start over"));
}

TEST_F(CleanResumeOnceTest, NamesTheChange) {
  fail_late();
  const CleanOptions same = options_;
  options_.resume_identity = {{"--flag", "another"}};
  EXPECT_THAT(error(),
              HasSubstr("its run had \"--flag\" \"value\", this one has \"another\": use the "
                        "same as before, or remove it to start over"));
  options_ = same;
  options_.memory *= 2;
  EXPECT_THAT(error(), HasSubstr("memory 1048576, this one has 2097152"));
  options_ = same;
  options_.samples = 0;
  EXPECT_THAT(error(), HasSubstr("samples 3, this one has 0"));
  options_ = same;
  options_.inputs.pop_back();
  EXPECT_THAT(error(), HasSubstr("inputs 3, this one has 2"));
  options_ = same;
  const auto time = fs::last_write_time(options_.inputs[2]);
  fs::last_write_time(options_.inputs[2], time + std::chrono::seconds(1));
  EXPECT_THAT(error(), HasSubstr("c.jsonl"));
  fs::last_write_time(options_.inputs[2], time);
  options_.resume = false;
  EXPECT_THAT(error(), HasSubstr("an unfinished run: resume it, or remove the journal"));
  options_ = same;
  options_.workers = 3;
  expect_whole();
}

TEST_F(CleanResumeOnceTest, RefusesADamagedJournal) {
  fail_late();
  const std::string whole = test::read_file(journal());
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    test::write_file(journal(), flipped);
    ASSERT_THAT(error(), HasSubstr("damaged")) << at;
  }
  test::write_file(journal(), whole);
  expect_whole();
}

TEST_F(CleanResumeOnceTest, RefusesFilesThatAreShorter) {
  fail_late();
  for (const std::string& name :
       {options_.output + ".unfinished", options_.output + ".resume/digests"}) {
    const std::string whole = test::read_file(name);
    ASSERT_FALSE(whole.empty()) << name;
    test::write_file(name, "");
    EXPECT_THAT(error(), testing::ContainsRegex("expected at least .* bytes, found 0")) << name;
    test::write_file(name, whole);
  }
  expect_whole();
}

TEST_F(CleanResumeOnceTest, RefusesWhatCannotBeResumed) {
  run_whole(kCases[0]);
  const CleanOptions same = options_;
  options_.near_duplicates = true;
  options_.minhash_stage = MinHashStage::kSignatures;
  options_.minhash_folder = folder_.path("stages");
  options_.output.clear();
  EXPECT_THAT(error(), HasSubstr("`resume`: cannot be combined with `minhash_stage`"));
  options_ = same;
  options_.output = "/dev/null";
  EXPECT_THAT(error(), HasSubstr("/dev/null"));
  options_ = same;
  options_.inputs = {"-"};
  EXPECT_THAT(error(), HasSubstr("`resume`: expected files, found standard input"));
}

}  // namespace
}  // namespace meg::cleaning
