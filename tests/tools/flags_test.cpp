#include "tools/common/flags/flags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "libmeg/base/version.h"
#include "tests/temp_folder.h"
#include "tools/common/build_info.h"

namespace meg::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

/// A program with a flag of every kind.
class FlagsTest : public testing::Test {
 protected:
  FlagsTest() {
    flags_.group("Input");
    flags_.list("--input", &input_, "FILE...", "JSON lines to read").required();
    flags_.list("--json-keys", &json_keys_, "KEY...", "keys to extract");
    flags_.group("Tokenizer");
    flags_.value("--tokenizer-type", &tokenizer_, "NAME", "which tokenizer")
        .choices({"GPT2BPETokenizer", "NullTokenizer"});
    flags_.value("--vocab-file", &vocab_file_, "FILE", "vocabulary").old_name("--bpe-vocab");
    flags_.value("--vocab-size", &vocab_size_, "N", "entries").range(1, INT64_MAX);
    flags_.group("Work");
    flags_.value("--workers", &workers_, "N", "worker threads").range(1, 1024);
    flags_.value("--atol", &atol_, "X", "tolerance").real_range(0, 1);
    flags_.toggle("--append-eod", &append_eod_, "end each document with <|endoftext|>");
    flags_.not_yet("--partitions", Arity::kValue);
  }

  std::optional<int> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "preprocess_data");
    out_.str("");
    err_.str("");
    return flags_.parse(static_cast<int>(arguments.size()), arguments.data(), out_, err_);
  }

  /// The last line on standard error, which must be the error.
  std::string error_of(std::vector<const char*> arguments) {
    EXPECT_EQ(parse(std::move(arguments)), 2);
    std::string text = err_.str();
    EXPECT_THAT(text, EndsWith("\n"));
    text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  Flags flags_{"preprocess_data", "turns text into tokens"};
  std::vector<std::string> input_;
  std::vector<std::string> json_keys_ = {"text"};
  std::string tokenizer_ = "GPT2BPETokenizer";
  std::optional<std::string> vocab_file_;
  std::optional<int64_t> vocab_size_;
  int64_t workers_ = 4;
  double atol_ = 0.5;
  bool append_eod_ = false;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(FlagsTest, FillsVariablesAndKeepsDefaults) {
  EXPECT_EQ(parse({"--input", "a.json", "b.json", "--workers", "8", "--append-eod"}), std::nullopt);
  EXPECT_THAT(input_, ElementsAre("a.json", "b.json"));
  EXPECT_THAT(json_keys_, ElementsAre("text"));
  EXPECT_EQ(workers_, 8);
  EXPECT_TRUE(append_eod_);
  EXPECT_EQ(vocab_file_, std::nullopt);
  EXPECT_EQ(err_.str(), "");
}

TEST_F(FlagsTest, EveryFlagIsAmongTheSettings) {
  ASSERT_EQ(parse({"--input", "a.json"}), std::nullopt);
  std::set<std::string> seen = {flags_.settings()};
  EXPECT_THAT(*seen.begin(), HasSubstr("\n--vocab-file None\n"));
  EXPECT_THAT(*seen.begin(), HasSubstr("\n--workers 4\n"));
  const std::string one = std::string(100, 'x') + "1";
  const std::string two = std::string(100, 'x') + "2";
  const std::vector<std::vector<const char*>> changes = {
      {"--input", "a.json", "b.json"},
      {"--input", "a.json b.json"},
      {"--input", "a.json\" \"b.json"},
      {"--input", "a", "--json-keys", "title"},
      {"--input", "a", "--vocab-size", "7"},
      {"--input", "a", "--atol", "0.25"},
      {"--input", "a", "--append-eod"},
      {"--input", "a", "--vocab-file", one.c_str()},
      {"--input", one.c_str()},
      {"--input", two.c_str()},
      {"--input", "a", "--vocab-file", two.c_str()},
  };
  for (const std::vector<const char*>& change : changes) {
    ASSERT_EQ(parse(change), std::nullopt) << err_.str();
    EXPECT_TRUE(seen.insert(flags_.settings()).second) << flags_.settings();
  }
}

TEST_F(FlagsTest, NotesCanBeLeftToAnotherRank) {
  flags_.notes(false);
  EXPECT_EQ(parse({"--input", "a", "--bpe-vocab", "v"}), std::nullopt);
  EXPECT_EQ(err_.str(), "");
}

TEST_F(FlagsTest, TakesValueBehindEqualsSign) {
  EXPECT_EQ(parse({"--input=a=b.json", "--workers=2", "--vocab-file="}), std::nullopt);
  EXPECT_THAT(input_, ElementsAre("a=b.json"));
  EXPECT_EQ(workers_, 2);
  EXPECT_EQ(vocab_file_, "");
}

TEST_F(FlagsTest, ListContinuesAfterEqualsSignWithoutPositionals) {
  EXPECT_EQ(parse({"--input=a", "b"}), std::nullopt);
  EXPECT_THAT(input_, ElementsAre("a", "b"));
}

TEST_F(FlagsTest, DashAndUnderscoreAreTheSameInsideNames) {
  EXPECT_EQ(parse({"--input", "a", "--json_keys", "x", "--append_eod", "--tokenizer_type",
                   "NullTokenizer"}),
            std::nullopt);
  EXPECT_THAT(json_keys_, ElementsAre("x"));
  EXPECT_TRUE(append_eod_);
  EXPECT_EQ(tokenizer_, "NullTokenizer");
}

TEST_F(FlagsTest, LastOfTwoWinsForListsToo) {
  EXPECT_EQ(parse({"--input", "a", "b", "--workers", "2", "--workers", "3", "--input", "c"}),
            std::nullopt);
  EXPECT_THAT(input_, ElementsAre("c"));
  EXPECT_EQ(workers_, 3);
}

TEST_F(FlagsTest, LoneDashAndNegativeNumbersAreValues) {
  EXPECT_EQ(parse({"--input", "-", "-1", "-.5", "-2e3"}), std::nullopt);
  EXPECT_THAT(input_, ElementsAre("-", "-1", "-.5", "-2e3"));
}

TEST_F(FlagsTest, ValueWithDashAndSpaceIsAValue) {
  EXPECT_EQ(parse({"--input", "-my file.json"}), std::nullopt);
  EXPECT_THAT(input_, ElementsAre("-my file.json"));
}

TEST_F(FlagsTest, UnambiguousPrefixIsTaken) {
  EXPECT_EQ(parse({"--inp", "a", "--append", "--vocab_f", "v.json"}), std::nullopt);
  EXPECT_TRUE(append_eod_);
  EXPECT_EQ(vocab_file_, "v.json");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(FlagsTest, OldNameIsTakenWithANote) {
  EXPECT_EQ(parse({"--input", "a", "--bpe_vocab", "v.json"}), std::nullopt);
  EXPECT_EQ(vocab_file_, "v.json");
  EXPECT_EQ(err_.str(), "note: --bpe-vocab is the old name of --vocab-file\n");
}

TEST_F(FlagsTest, AmbiguousPrefixNamesTheCandidates) {
  EXPECT_EQ(error_of({"--input", "a", "--vocab", "v"}),
            "error: ambiguous flag --vocab: could be --vocab-file, --vocab-size");
}

TEST_F(FlagsTest, UnknownFlagSuggestsTheNearest) {
  EXPECT_EQ(error_of({"--imput", "a"}), "error: unknown flag --imput: did you mean --input?");
  EXPECT_EQ(error_of({"--jsonkeys=a"}),
            "error: unknown flag --jsonkeys: did you mean --json-keys?");
  EXPECT_EQ(error_of({"-x"}), "error: unknown flag -x");
  EXPECT_EQ(error_of({"--completely-different"}), "error: unknown flag --completely-different");
}

TEST_F(FlagsTest, UnsupportedFlagFailsWithOne) {
  EXPECT_EQ(parse({"--input", "a", "--partitions", "2"}), 1);
  EXPECT_EQ(err_.str(), "error: --partitions is not supported yet\n");
}

TEST_F(FlagsTest, MissingRequiredFlagIsAnError) {
  EXPECT_EQ(error_of({"--append-eod"}), "error: --input: required");
}

TEST_F(FlagsTest, MissingValueIsAnError) {
  EXPECT_EQ(error_of({"--input"}),
            "error: --input: expected FILE..., found the end of the command line");
  EXPECT_EQ(error_of({"--workers", "--append-eod"}),
            "error: --workers: expected N, found \"--append-eod\"");
}

TEST_F(FlagsTest, RejectsBadNumbers) {
  EXPECT_EQ(error_of({"--workers", "two"}), "error: --workers: expected an integer, found \"two\"");
  EXPECT_EQ(error_of({"--workers", "2x"}), "error: --workers: expected an integer, found \"2x\"");
  EXPECT_EQ(error_of({"--workers="}), "error: --workers: expected an integer, found \"\"");
  EXPECT_EQ(error_of({"--workers", "0"}), "error: --workers: expected 1 to 1024, found 0");
  EXPECT_EQ(error_of({"--workers", "-3"}), "error: --workers: expected 1 to 1024, found -3");
  EXPECT_EQ(error_of({"--vocab-size", "0"}), "error: --vocab-size: expected at least 1, found 0");
  EXPECT_EQ(error_of({"--workers", "99999999999999999999"}),
            "error: --workers: expected an integer of 64 bits, found \"99999999999999999999\"");
  EXPECT_EQ(error_of({"--atol", "1.5"}), "error: --atol: expected 0 to 1, found 1.5");
  EXPECT_EQ(error_of({"--atol", "nan"}), "error: --atol: expected 0 to 1, found nan");
  EXPECT_EQ(error_of({"--atol", "x"}), "error: --atol: expected a number, found \"x\"");
}

TEST_F(FlagsTest, BadChoiceListsTheChoices) {
  EXPECT_EQ(error_of({"--tokenizer-type", "Foo"}),
            "error: --tokenizer-type: expected one of GPT2BPETokenizer, NullTokenizer, found "
            "\"Foo\"");
}

TEST_F(FlagsTest, SwitchTakesNoValue) {
  EXPECT_EQ(error_of({"--append-eod=1"}), "error: --append-eod: expected no value, found \"1\"");
}

TEST_F(FlagsTest, UnexpectedArgumentIsAnError) {
  EXPECT_EQ(error_of({"--append-eod", "a.json"}), "error: unexpected argument \"a.json\"");
}

TEST_F(FlagsTest, VersionNamesProgramAndLibrary) {
  EXPECT_EQ(parse({"--version"}), 0);
  EXPECT_EQ(out_.str(), fmt::format("preprocess_data (libmeg) {}\n{}\n", version(), build_info()));
}

TEST(BuildInfo, NamesCommitAndLibraries) {
  EXPECT_THAT(std::string(build_info()),
              ::testing::MatchesRegex("commit [0-9a-f]+(-dirty)?, .*LibTorch.*, .*CUDA.*"));
}

TEST_F(FlagsTest, HelpIsGroupedAndShowsDefaults) {
  for (const char* help : {"--help", "-h"}) {
    EXPECT_EQ(parse({help}), 0);
    EXPECT_THAT(out_.str(), HasSubstr("usage: preprocess_data --input FILE... [flags]\n"));
    EXPECT_THAT(out_.str(),
                HasSubstr("\nTokenizer\n  --tokenizer-type NAME       which tokenizer"));
    EXPECT_THAT(out_.str(), HasSubstr("  --workers N                 worker threads (default: 4)"));
    EXPECT_THAT(out_.str(), Not(HasSubstr("--partitions N")));
    EXPECT_EQ(err_.str(), "");
  }
}

TEST_F(FlagsTest, UsageSaysWhatIsNeededAndHelpEndsWithExamples) {
  flags_.usage("--vocab-file FILE");
  flags_.examples({"preprocess_data --input a.jsonl",
                   "preprocess_data --input b.jsonl " + std::string(60, 'x') + " --workers 2"});
  EXPECT_EQ(parse({"--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("preprocess_data --input FILE... --vocab-file FILE [flags]\n"));
  EXPECT_THAT(out_.str(), EndsWith("\nexamples:\n  preprocess_data --input a.jsonl\n"
                                   "  preprocess_data --input b.jsonl \\\n    " +
                                   std::string(60, 'x') + " --workers 2\n"));
}

/// Lines of `text` longer than `columns`.
std::vector<std::string> longer_lines(const std::string& text, size_t columns) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > columns) found.push_back(line);
  }
  return found;
}

TEST_F(FlagsTest, HelpFitsTheColumns) {
  flags_.value(
      "--another-flag-with-a-name", &vocab_size_, "METAVAR",
      "what it says goes on and on, past the end of a line of eighty columns, and when that "
      "is not enough even past the end of a line of a hundred and thirty-two columns");
  const char* old_columns = std::getenv("COLUMNS");
  const std::string saved = old_columns == nullptr ? "" : old_columns;
  for (const size_t columns : {60, 80, 132}) {
    setenv("COLUMNS", std::to_string(columns).c_str(), 1);
    EXPECT_EQ(parse({"--help"}), 0);
    EXPECT_THAT(longer_lines(out_.str(), columns), ElementsAre()) << columns;
    EXPECT_THAT(longer_lines(out_.str(), columns - 20), Not(ElementsAre())) << columns;
  }
  unsetenv("COLUMNS");
  EXPECT_EQ(parse({"--help"}), 0);
  EXPECT_THAT(longer_lines(out_.str(), 80), ElementsAre()) << "as in a pipe";
  if (old_columns != nullptr) setenv("COLUMNS", saved.c_str(), 1);
}

TEST_F(FlagsTest, HelpShowsEveryDefault) {
  EXPECT_EQ(parse({"--help"}), 0);
  for (const char* text :
       {"(default: text)", "(default: GPT2BPETokenizer)", "(default: 4)", "(default: 0.5)"}) {
    std::string flat = out_.str();
    std::erase(flat, '\n');
    while (flat.find("  ") != std::string::npos) flat.replace(flat.find("  "), 2, " ");
    EXPECT_THAT(flat, HasSubstr(text));
  }
}

TEST_F(FlagsTest, AllMissingFlagsAreNamedAtOnce) {
  std::string prefix;
  std::string where;
  flags_.value("--output-prefix", &prefix, "PREFIX", "output").required();
  flags_.positional("WHERE", &where, "a place");
  EXPECT_EQ(error_of({"--workers", "2"}), "error: WHERE, --input, --output-prefix: required");
  EXPECT_THAT(err_.str(), HasSubstr("usage: preprocess_data WHERE --input FILE... --output-prefix "
                                    "PREFIX [flags]\n"));
  EXPECT_EQ(error_of({"here", "--input", "a"}), "error: --output-prefix: required");
}

/// FlagsTest with a --config file.
class ConfigFlagTest : public FlagsTest {
 protected:
  void write(std::string_view text) const { std::ofstream(path_) << text; }

  test::TempFolder folder_;
  std::string path_ = folder_.path("run.toml");
};

TEST_F(ConfigFlagTest, GivesWhatTheCommandLineDoesNot) {
  write(
      "input = [\"a b\", c]  # two\nworkers = 8\njson_keys = x y\nappend-eod = true\n"
      "vocab-file = \"\"\natol=0.25");
  EXPECT_EQ(parse({"--config", path_.c_str(), "--workers", "2"}), std::nullopt) << err_.str();
  EXPECT_THAT(input_, ElementsAre("a b", "c"));
  EXPECT_THAT(json_keys_, ElementsAre("x", "y"));
  EXPECT_EQ(workers_, 2) << "the command line wins";
  EXPECT_EQ(vocab_file_, "");
  EXPECT_EQ(atol_, 0.25);
  EXPECT_TRUE(append_eod_);
  EXPECT_EQ(err_.str(), "");
}

TEST_F(ConfigFlagTest, AFalseSwitchIsNotGiven) {
  write("append_eod = false\n");
  EXPECT_EQ(parse({"--input", "a", "--config", path_.c_str()}), std::nullopt);
  EXPECT_FALSE(append_eod_);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(parse({"--input", "a", "--append-eod", "--config", path_.c_str()}), std::nullopt);
  EXPECT_TRUE(append_eod_);
}

TEST_F(ConfigFlagTest, ValuesThatLookLikeFlagsOrListsStayWhatTheyAre) {
  write("input = \"--workers\" \"[a,b]\" \"{}\" -x\nvocab-file = [1,2]\n");
  EXPECT_EQ(parse({"--config", path_.c_str()}), std::nullopt) << err_.str();
  EXPECT_THAT(input_, ElementsAre("--workers", "[a,b]", "{}", "-x"));
  EXPECT_EQ(vocab_file_, "[1,2]");
}

TEST_F(ConfigFlagTest, ErrorsNameFileAndLine) {
  const auto error = [this](std::string_view text) {
    write(text);
    return error_of({"--input", "a", "--config", path_.c_str()});
  };
  const std::string where = "error: " + path_ + ":2: ";
  EXPECT_EQ(error("workers = 2\nwokers = 3\n"),
            where + "unknown key \"wokers\": did you mean workers?");
  EXPECT_EQ(error("atol = 0\nworkers = many"),
            where + "--workers: expected an integer, found \"many\"");
  EXPECT_EQ(error("\nappend-eod = 2"), where + "--append-eod: expected true or false, found \"2\"");
  EXPECT_EQ(error("workers=2\nworkers=3"), where + "--workers: given twice, first in line 1");
  EXPECT_EQ(error("\njson-keys = []"), where + "--json-keys: expected KEY..., found none");
  EXPECT_EQ(error("\nworkers: 2"), where + "expected key = value, found \"workers: 2\"");
  EXPECT_EQ(error("\nhelp = true"), where + "--help is only allowed on the command line");
}

TEST_F(ConfigFlagTest, AFileThatCannotBeReadIsAnError) {
  EXPECT_EQ(error_of({"--input", "a", "--config", "nowhere.toml"}),
            "error: --config: expected a readable file, found \"nowhere.toml\"");
  EXPECT_EQ(error_of({"--config", "x", "--config", "y"}),
            "error: --config: expected a readable file, found \"y\"");
}

TEST_F(ConfigFlagTest, GivesOldNamesTheirNotes) {
  write("input = a\nbpe-vocab = v\n");
  EXPECT_EQ(parse({"--config", path_.c_str()}), std::nullopt);
  EXPECT_EQ(err_.str(), "note: --bpe-vocab is the old name of --vocab-file\n");
  write("input = a\npartitions = 2\n");
  EXPECT_EQ(parse({"--config", path_.c_str()}), 1);
}

TEST(PositionalTest, TakesPositionalsAmongFlags) {
  Flags flags("verify dataset", "checks a dataset");
  std::string prefix;
  std::vector<std::string> more;
  bool json = false;
  flags.positional("PREFIX", &prefix, "the dataset");
  flags.positional_list("MORE...", &more, "others").optional();
  flags.toggle("--json", &json, "print JSON");
  std::ostringstream out;
  std::ostringstream err;
  const char* arguments[] = {"verify", "a", "--json", "b", "--", "--c"};
  EXPECT_EQ(flags.parse(6, arguments, out, err), std::nullopt);
  EXPECT_EQ(prefix, "a");
  EXPECT_THAT(more, ElementsAre("b", "--c"));
  EXPECT_TRUE(json);
}

TEST(PositionalTest, AWrongPositionalIsNamedBeforeOneTooMany) {
  Flags flags("verify", "checks");
  std::string what;
  flags.positional("WHAT", &what, "what to check").choices({"dataset"});
  std::ostringstream out;
  std::ostringstream err;
  const char* wrong[] = {"verify", "datasets", "a"};
  EXPECT_EQ(flags.parse(3, wrong, out, err), 2);
  EXPECT_THAT(err.str(), EndsWith("error: WHAT: expected one of dataset, found \"datasets\"\n"));
  const char* longer[] = {"verify", "dataset", "a", "b"};
  EXPECT_EQ(flags.parse(4, longer, out, err), 2);
  EXPECT_THAT(err.str(), EndsWith("error: unexpected argument \"a\"\n"));
}

TEST(PositionalTest, MissingPositionalIsAnError) {
  Flags flags("verify dataset", "checks a dataset");
  std::string prefix;
  flags.positional("PREFIX", &prefix, "the dataset");
  std::ostringstream out;
  std::ostringstream err;
  const char* arguments[] = {"verify"};
  EXPECT_EQ(flags.parse(1, arguments, out, err), 2);
  EXPECT_EQ(err.str(),
            "usage: verify dataset PREFIX [flags]\ntry: verify dataset --help\n"
            "error: PREFIX: required\n");
}

TEST(PositionalTest, VersionNamesTheProgramWithoutItsSubject) {
  Flags flags("verify dataset", "checks a dataset");
  std::ostringstream out;
  std::ostringstream err;
  const char* arguments[] = {"verify", "--version"};
  EXPECT_EQ(flags.parse(2, arguments, out, err), 0);
  EXPECT_EQ(out.str(), fmt::format("verify (libmeg) {}\n{}\n", version(), build_info()));
}

}  // namespace
}  // namespace meg::tools
