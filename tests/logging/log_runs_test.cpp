// Which lines of a log belong to which run, and what a log has that it should not.

#include "libmeg/logging/log_runs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "libmeg/logging/run_findings.h"

namespace meg::logging {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Lines of iterations first, first + interval ... last, whose loss falls slowly.
void add_run(RunLog& log, int64_t first, int64_t last, int64_t interval = 1) {
  for (int64_t iteration = first; iteration <= last; iteration += interval) {
    LoggedSteps& steps = log.steps.emplace_back();
    steps.line = std::ssize(log.steps) * 10;
    steps.iteration = iteration;
    const auto at = static_cast<double>(iteration);
    steps.losses = {{"lm loss", {.value = 5 - 0.001 * at, .rounding = 1e-6}}};
    steps.learning_rate = {.value = 1e-3 - 1e-6 * at, .rounding = 1e-10};
    steps.grad_norm = {.value = 1 + 0.01 * static_cast<double>(iteration % 3), .rounding = 5e-4};
    steps.milliseconds = {.value = 100, .rounding = 0.05};
    steps.skipped_iterations = steps.nan_iterations = 0;
  }
}

void add_load(RunLog& log, int64_t iteration) {
  log.loads.push_back(
      {.line = std::ssize(log.steps) * 10 + 1, .iteration = iteration, .folder = "ckpt"});
}

std::vector<int64_t> iterations_of(const LoggedResume& found) {
  std::vector<int64_t> iterations;
  for (const LoggedInterval& line : found.lines) iterations.push_back(line.line.iteration);
  return iterations;
}

TEST(LogRuns, ARunThatPassedTheCheckpointIsAsGoodAsOneThatLoadedIt) {
  RunLog log;
  add_run(log, 10, 60, 10);
  const auto found = find_resume(log, 30);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_THAT(iterations_of(*found), ElementsAre(40, 50, 60));
  EXPECT_EQ(found->lines[0].after, 30);
  EXPECT_EQ(found->lines[1].after, 40);
  EXPECT_EQ(found->note, "");
  // A line about 31 to 40 says nothing of the steps after 35 alone.
  EXPECT_EQ(find_resume(log, 35).error().code(), StatusCode::kInvalidArgument);
}

TEST(LogRuns, TheLastRunThatLoadedTheCheckpointCounts) {
  RunLog log;
  add_run(log, 1, 30);
  add_load(log, 20);
  add_run(log, 21, 25);
  add_load(log, 20);
  add_run(log, 21, 40);
  EXPECT_EQ(runs_in(log).size(), 3u);
  const auto found = find_resume(log, 20);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->lines.size(), 20u);
  EXPECT_THAT(found->note, HasSubstr("run 3 of 3"));
}

TEST(LogRuns, TheFirstLineOfAResumeMayBeAboutFewerSteps) {
  RunLog log;
  add_load(log, 25);
  add_run(log, 30, 50, 10);
  const auto found = find_resume(log, 25);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->lines[0].after, 25);
  EXPECT_EQ(found->lines[0].line.iteration, 30);
}

/// Lines of a run of core_v0.16 and later, which are about 10 steps each, the first about one.
RunLog log_with_microseconds(int64_t first, bool says_load) {
  RunLog log;
  if (says_load) add_load(log, first - 1);
  add_run(log, first, first);
  add_run(log, (first + 10) / 10 * 10, first + 40, 10);
  for (LoggedSteps& steps : log.steps) steps.has_microseconds = true;
  return log;
}

TEST(LogRuns, ASecondLineIsAboutTheFirstStepToo) {
  for (const bool says_load : {true, false}) {
    const auto found = find_resume(log_with_microseconds(26, says_load), 25);
    ASSERT_TRUE(found.has_value()) << found.error().message();
    EXPECT_THAT(iterations_of(*found), ElementsAre(26, 30, 40, 50, 60));
    EXPECT_EQ(found->lines[0].after, 25);
    EXPECT_EQ(found->lines[1].after, 25);
    EXPECT_EQ(found->lines[2].after, 30);
    // Its sums began before the checkpoint.
    const auto later = find_resume(log_with_microseconds(26, says_load), 26);
    EXPECT_FALSE(later.has_value());
  }
}

TEST(LogRuns, ALogThatBeginsInTheMiddleOfARunHasNoFirstStep) {
  RunLog log;
  add_run(log, 30, 60, 10);
  for (LoggedSteps& steps : log.steps) steps.has_microseconds = true;
  const auto found = find_resume(log, 20);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->lines[0].after, 20);
  EXPECT_EQ(found->lines[1].after, 30);
}

TEST(LogRuns, LogsThatEndBeforeOrBeginAfterTheCheckpointAreRefused) {
  RunLog log;
  add_run(log, 101, 110);
  EXPECT_THAT(find_resume(log, 110).error().message(), HasSubstr("the last of iteration 110"));
  EXPECT_THAT(find_resume(log, 50).error().message(), HasSubstr("the next of iteration 101"));
  EXPECT_TRUE(find_resume(log, 100).has_value());
}

TEST(RunFindings, AHealthyRunHasNone) {
  RunLog log;
  add_run(log, 10, 2000, 10);
  add_load(log, 2000);
  add_run(log, 2010, 3000, 10);
  for (const RunFinding& finding : find_in_run(log)) ADD_FAILURE() << finding.text;
}

TEST(RunFindings, EachFaultIsFoundWhereItIs) {
  const auto found = [](auto spoil) {
    RunLog log;
    add_run(log, 1, 100);
    spoil(log);
    std::vector<std::string> kinds;
    for (const RunFinding& finding : find_in_run(log)) {
      kinds.push_back(fmt::format("{} {}-{}", finding.kind, finding.iteration, finding.last));
    }
    return kinds;
  };
  EXPECT_THAT(found([](RunLog&) {}), IsEmpty());
  EXPECT_THAT(
      found([](RunLog& log) { log.steps.erase(log.steps.begin() + 40, log.steps.begin() + 45); }),
      ElementsAre("gap 41-45"));
  EXPECT_THAT(found([](RunLog& log) { log.steps[60].losses[0].second.value = 7; }),
              ElementsAre("spike 61-61"));
  EXPECT_THAT(found([](RunLog& log) { log.steps[60].grad_norm->value = 20; }),
              ElementsAre("spike 61-61"));
  EXPECT_THAT(found([](RunLog& log) {
                for (size_t i = 50; i < 100; ++i) log.steps[i].learning_rate->value *= 2;
              }),
              ElementsAre("learning-rate 51-51"));
  EXPECT_THAT(found([](RunLog& log) {
                for (size_t i = 50; i < 60; ++i) log.steps[i].milliseconds->value = 300;
              }),
              ElementsAre("slow 51-60"));
  EXPECT_THAT(found([](RunLog& log) {
                for (size_t i = 50; i < 60; ++i) log.steps[i].milliseconds->value = 195;
              }),
              IsEmpty())
      << "not a second together";
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(found([](RunLog& log) {
                for (size_t i = 80; i < 90; ++i) log.steps[i].grad_norm->value = kNan;
              }),
              ElementsAre("not-finite 81-90"));
  EXPECT_THAT(found([](RunLog& log) { log.steps[20].losses[0].second.value = kNan; }),
              ElementsAre("not-finite 21-21"));
  EXPECT_THAT(found([](RunLog& log) { log.steps[70].skipped_iterations = 1; }),
              ElementsAre("skipped 71-71"));
  EXPECT_THAT(found([](RunLog& log) {
                add_load(log, 90);
                add_run(log, 91, 120);
              }),
              ElementsAre("repeated 91-100"));
  EXPECT_THAT(found([](RunLog& log) {
                add_load(log, 110);
                add_run(log, 111, 120);
              }),
              ElementsAre("gap 101-110"));
}

TEST(RunFindings, RepeatedIterationsTellHowTheirLossesDiffer) {
  RunLog log;
  add_run(log, 1, 20);
  add_load(log, 10);
  add_run(log, 11, 20);
  EXPECT_THAT(find_in_run(log)[0].text, HasSubstr("differ by 0.0e+00 at most"));
  log.steps[25].losses[0].second.value *= 1.001;
  EXPECT_THAT(find_in_run(log)[0].text,
              HasSubstr("differ by 1.0e-03 at most, relative, in 10 lines"));
}

TEST(RunFindings, ARunBeginsWithItsFirstLineWhereThatIsOfItsFirstStep) {
  RunLog log;
  add_run(log, 10, 60, 10);
  add_run(log, 41, 41);
  add_run(log, 50, 60, 10);
  EXPECT_EQ(find_in_run(log)[0].iteration, 32);
  for (LoggedSteps& steps : log.steps) steps.has_microseconds = true;
  EXPECT_EQ(find_in_run(log)[0].iteration, 41);
  EXPECT_EQ(find_in_run(log)[0].last, 60);
}

TEST(RunFindings, LinesAboutOtherStepsAreNotCompared) {
  RunLog log;
  add_run(log, 1, 20);
  add_load(log, 10);
  add_run(log, 11, 20);
  log.steps[21].losses[0].second.value *= 1.1;
  EXPECT_THAT(find_in_run(log)[0].text, HasSubstr("differ by 1.0e-01 at most"));
  for (LoggedSteps& steps : log.steps) steps.has_microseconds = true;
  EXPECT_THAT(find_in_run(log)[0].text,
              HasSubstr("differ by 0.0e+00 at most, relative, in 9 lines"));
}

}  // namespace
}  // namespace meg::logging
