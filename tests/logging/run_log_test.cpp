// What the writers write is read back; what they would never write is left out or refused.

#include "libmeg/logging/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/logging/internal/tf_record.h"
#include "libmeg/logging/log_lines.h"
#include "libmeg/logging/tensorboard_log.h"
#include "libmeg/logging/training_log.h"
#include "tests/temp_folder.h"

namespace meg::logging {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLine[] =
    " iteration       20/    1000 | consumed samples:          320 | elapsed time per iteration "
    "(ms): 820.7 | learning rate: 4.000E-05 | global batch size:    16 | lm loss: 1.072453E+01 | "
    "loss scale: 131072.0 | grad norm: 3.874 | number of skipped iterations:   6 | number of nan "
    "iterations:   0 |";

RunLog read(const std::string& text) {
  const test::TempFolder folder;
  test::write_file(folder.path("log"), text);
  auto log = read_log(folder.path("log"));
  EXPECT_TRUE(log.has_value()) << log.error().message();
  return log.has_value() ? *std::move(log) : RunLog();
}

IterationFigures figures_of(int64_t iteration) {
  return {.iteration = iteration,
          .train_iters = 1000,
          .consumed_train_samples = 16 * iteration,
          .learning_rate = 1.0 / 3 * 1e-4,
          .global_batch_size = 16,
          .loss_scale = 4096,
          .grad_norm = 3.8741,
          .num_zeros_in_grad = 71.0,
          .params_norm = 12.5};
}

void expect_figures(const LoggedSteps& steps, int64_t iteration) {
  const IterationFigures wanted = figures_of(iteration);
  const auto near = [](const std::optional<LoggedFigure>& found, double value) {
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(std::abs(found->value - value), found->rounding * 1.0001);
    EXPECT_LE(found->rounding, 1e-3 * std::abs(value));
  };
  EXPECT_EQ(steps.iteration, iteration);
  EXPECT_EQ(steps.consumed_samples, 16 * iteration);
  EXPECT_EQ(steps.batch_size, 16);
  near(steps.learning_rate, wanted.learning_rate);
  near(steps.grad_norm, *wanted.grad_norm);
  near(steps.params_norm, *wanted.params_norm);
  near(steps.lm_loss(), static_cast<double>(10.7F / 3));
  EXPECT_EQ(steps.loss_scale->value, 4096);
}

TEST(RunLog, LinesOfEveryRevisionAreReadBack) {
  for (const char* revision : {"v2.6", "6ef5bdc", "core_v0.12.3", "core_v0.19.0"}) {
    TrainingLog writer(*megatron::parse_megatron_version(revision));
    writer.add({{"lm loss", 10.7F / 3}, {"load_balancing_loss", 1.25F}}, false);
    writer.add({{"lm loss", 9}}, true);
    const RunLog log =
        read("training ...\n" + writer.iteration_line(figures_of(30), 2.0, 0, 391.2));
    ASSERT_EQ(log.steps.size(), 1u) << revision;
    expect_figures(log.steps[0], 30);
    EXPECT_EQ(log.steps[0].line, 2);
    EXPECT_EQ(log.steps[0].train_iters, 1000);
    EXPECT_EQ(log.steps[0].skipped_iterations, 1);
    EXPECT_EQ(log.steps[0].milliseconds->value, 1000);
    ASSERT_EQ(log.steps[0].losses.size(), 2u);
    EXPECT_EQ(log.steps[0].losses[1].first, "load_balancing_loss");
    EXPECT_TRUE(log.notes.empty());
  }
}

TEST(RunLog, LaunchersPrefixesAndMicrosecondsAreNoObstacle) {
  const std::string line(kLine + 1);
  const RunLog log = read("0: " + line + "\n[default7]:[2025-04-13 23:41:20.123456] " + line +
                          "\r\nbar 1%\rbar 2%\r" + kLine + "\n" + line);
  ASSERT_EQ(log.steps.size(), 4u);
  for (const LoggedSteps& steps : log.steps) {
    EXPECT_EQ(steps.iteration, 20);
    EXPECT_NEAR(steps.learning_rate->rounding, 5e-9, 1e-15);
    EXPECT_NEAR(steps.lm_loss()->rounding, 5e-6, 1e-12);
    EXPECT_NEAR(steps.grad_norm->rounding, 5e-4, 1e-12);
  }
  EXPECT_FALSE(log.steps[0].has_microseconds);
  EXPECT_TRUE(log.steps[1].has_microseconds);
}

TEST(RunLog, LossesOfZeroAreNoneWhereStepsWereSkipped) {
  std::string line(kLine);
  line.replace(line.find("1.072453E+01"), 12, "0.000000E+00");
  EXPECT_FALSE(read(line).steps[0].lm_loss().has_value());
  line.replace(line.find("skipped iterations:   6"), 23, "skipped iterations:   0");
  EXPECT_EQ(read(line).steps[0].lm_loss()->value, 0);
}

TEST(RunLog, NumbersThatNoRunHasAreNone) {
  std::string line(kLine);
  line.replace(line.find("20/"), 3, "9223372036854775807/");
  const RunLog log = read(std::string(kLine) + "\n" + line);
  EXPECT_EQ(log.steps.size(), 1u);
}

TEST(RunLog, CutLinesAreLeftOutByTheirNumbers) {
  const std::string line(kLine);
  for (size_t size = line.find('/') + 1; size < line.size() - 1; ++size) {
    const RunLog log = read(line + "\n" + line.substr(0, size));
    EXPECT_EQ(log.steps.size(), 1u) << size;
    ASSERT_EQ(log.notes.size(), 1u) << size;
    EXPECT_THAT(log.notes[0], HasSubstr("line 2: cut"));
  }
}

TEST(RunLog, EvaluationsAndLoadsAreRead) {
  std::string text = std::string(kLine) +
                     "\n  successfully loaded checkpoint from a b [ t 1/2, p "
                     "1/1 ] at iteration 100\n  successfully loaded "
                     "checkpoint from c at iteration 7\n";
  for (const Evaluation kind :
       {Evaluation::kDuringTraining, Evaluation::kFinalValidation, Evaluation::kFinalTest}) {
    for (const std::string& line : validation_lines(kind, 50, {{"lm loss", 2.5F}})) {
      text += line + "\n";
    }
  }
  const RunLog log = read(text);
  ASSERT_EQ(log.validations.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(log.validations[i].iteration, 50);
    EXPECT_EQ(log.validations[i].set, (std::vector<std::string>{"", "validation", "test"}[i]));
    ASSERT_EQ(log.validations[i].losses.size(), 1u);
    EXPECT_EQ(log.validations[i].losses[0].second.value, 2.5);
  }
  ASSERT_EQ(log.loads.size(), 2u);
  EXPECT_EQ(log.loads[0].folder, "a b");
  EXPECT_EQ(log.loads[0].iteration, 100);
  EXPECT_EQ(log.loads[1].folder, "c");
}

TEST(RunLog, LogsOfOtherProgramsAreRefused) {
  const test::TempFolder folder;
  for (const char* text : {"", "step 1 loss 2.3\n", "saved iteration 3/4\n", "\n\n\n"}) {
    test::write_file(folder.path("log"), text);
    const auto log = read_log(folder.path("log"));
    ASSERT_FALSE(log.has_value());
    EXPECT_EQ(log.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(log.error().message(), HasSubstr("expected lines such as"));
  }
  EXPECT_EQ(read_log(folder.path("none")).error().code(), StatusCode::kNotFound);
}

/// An event file of two steps and an evaluation.
std::string event_file(const std::string& folder) {
  auto writer = TensorboardWriter::create(folder, {});
  EXPECT_TRUE(writer.has_value());
  for (const int64_t iteration : {30, 31}) {
    EXPECT_TRUE(
        write_iteration(*writer, {}, figures_of(iteration), {{"lm loss", 10.7F / 3}}, 1).ok());
    EXPECT_TRUE(write_times(*writer, {.timers = true}, iteration, 0.5, 3.0, {}, 1).ok());
  }
  EXPECT_TRUE(
      write_validation(*writer, {.validation_ppl = true}, 31, 496, {{"lm loss", 2.5F}}).ok());
  return writer->path();
}

TEST(RunLog, EventFilesAreReadBack) {
  const test::TempFolder folder;
  const std::string path = event_file(folder.path("run"));
  for (const std::string& place : {path, folder.path("run")}) {
    const auto log = read_tensorboard_log(place);
    ASSERT_TRUE(log.has_value()) << log.error().message();
    ASSERT_EQ(log->steps.size(), 2u);
    expect_figures(log->steps[0], 30);
    expect_figures(log->steps[1], 31);
    EXPECT_EQ(log->steps[0].milliseconds->value, 500);
    ASSERT_EQ(log->validations.size(), 1u);
    EXPECT_EQ(log->validations[0].iteration, 31);
    ASSERT_EQ(log->validations[0].losses.size(), 1u);
    EXPECT_EQ(log->validations[0].losses[0].first, "lm loss");
  }
}

TEST(RunLog, EventFilesThatWereCutGiveTheirWholeRecords) {
  const test::TempFolder folder;
  const std::string bytes = test::read_file(event_file(folder.path("run")));
  for (size_t size = bytes.size() / 2; size < bytes.size(); ++size) {
    test::write_file(folder.path("cut"), bytes.substr(0, size));
    const auto log = read_tensorboard_log(folder.path("cut"));
    ASSERT_TRUE(log.has_value()) << size << log.error().message();
    EXPECT_LE(log->notes.size(), 1u);
    EXPECT_GE(log->steps.size(), 1u);
  }
}

TEST(RunLog, EventFilesWithAWrongByteAreRefused) {
  const test::TempFolder folder;
  const std::string bytes = test::read_file(event_file(folder.path("run")));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
    test::write_file(folder.path("wrong"), wrong);
    const auto log = read_tensorboard_log(folder.path("wrong"));
    ASSERT_FALSE(log.has_value()) << at;
    EXPECT_EQ(log.error().code(), StatusCode::kCorruption) << at;
    EXPECT_THAT(log.error().message(), HasSubstr("CRC does not fit"));
  }
}

TEST(RunLog, RecordsThatAreNoEventsAreRefused) {
  const test::TempFolder folder;
  for (const std::string& record : {std::string("\x2A\xFF\xFF\xFF\xFF\x0F", 6), std::string("\x07"),
                                    std::string("\x2A\x02\x0A\x09", 4)}) {
    std::string bytes;
    append_tf_record(bytes, record);
    test::write_file(folder.path("wrong"), bytes);
    const auto log = read_tensorboard_log(folder.path("wrong"));
    ASSERT_FALSE(log.has_value());
    EXPECT_EQ(log.error().code(), StatusCode::kCorruption) << log.error().message();
  }
  test::write_file(folder.path("empty"), "");
  EXPECT_EQ(read_tensorboard_log(folder.path("empty")).error().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace meg::logging
