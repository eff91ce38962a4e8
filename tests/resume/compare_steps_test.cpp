// Figures of a log beside those of computed steps, and what is concluded from how they differ.

#include "libmeg/resume/compare_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "libmeg/resume/judge_resume.h"

namespace meg::resume {
namespace {

using logging::LoggedInterval;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using train::StepReport;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Tolerances kTolerances = {.loss = 1e-5, .grad_norm = 1e-4};

/// Step `iteration` of a run whose loss is its iteration and whose norm half of it.
StepReport step_of(int64_t iteration, bool skipped = false) {
  StepReport step;
  step.iteration = iteration;
  step.lm_loss = static_cast<double>(iteration);
  step.outcome.skipped = skipped;
  step.figures = {.iteration = iteration,
                  .consumed_train_samples = 4 * iteration,
                  .learning_rate = 1e-3,
                  .global_batch_size = 4,
                  .loss_scale = 1024};
  if (!skipped) step.figures.grad_norm = 0.5 * static_cast<double>(iteration);
  return step;
}

/// A line as such a run prints it.
LoggedInterval line_of(int64_t after, int64_t iteration, double loss) {
  LoggedInterval interval{.after = after, .line = {}};
  logging::LoggedSteps& line = interval.line;
  line.iteration = iteration;
  line.consumed_samples = 4 * iteration;
  line.learning_rate = {.value = 1e-3, .rounding = 5e-10};
  line.batch_size = 4;
  line.losses = {{"lm loss", {.value = loss, .rounding = 5e-7}}};
  line.loss_scale = {.value = 1024, .rounding = 0.05};
  line.grad_norm = {.value = 0.5 * static_cast<double>(iteration), .rounding = 5e-4};
  line.skipped_iterations = 0;
  return interval;
}

double misfit_of(const std::vector<ComparedFigure>& figures, std::string_view name) {
  for (const ComparedFigure& figure : figures) {
    if (figure.name == name) return figure.misfit;
  }
  ADD_FAILURE() << name << " was not compared";
  return kNan;
}

TEST(CompareSteps, ALineHasTheMeanLossOfItsStepsAndTheLastOnesOtherFigures) {
  const std::vector<StepReport> steps = {step_of(11), step_of(12), step_of(13)};
  const auto figures =
      compare_steps(std::vector{line_of(10, 11, 11), line_of(10, 12, 11.5), line_of(12, 13, 13)},
                    steps, kTolerances);
  EXPECT_EQ(figures.size(), 21u);
  EXPECT_EQ(largest_misfit(figures), 0);
}

TEST(CompareSteps, LinesAboutStepsThatWereNotComputedAreLeftOut) {
  const auto figures = compare_steps(std::vector{line_of(10, 11, 11), line_of(11, 13, 12.5)},
                                     std::vector{step_of(11), step_of(12)}, kTolerances);
  EXPECT_THAT(figures, Each(Field(&ComparedFigure::iteration, 11)));
}

TEST(CompareSteps, AMisfitIsTheDifferenceByTheAllowedOne) {
  const std::vector<StepReport> steps = {step_of(10)};
  const auto misfit = [&](auto spoil, std::string_view name) {
    LoggedInterval line = line_of(9, 10, 10);
    spoil(line.line);
    return misfit_of(compare_steps(std::vector{line}, steps, kTolerances), name);
  };
  // 10 * 1e-5 and half a unit of the last digit.
  EXPECT_NEAR(misfit([](auto& line) { line.losses[0].second.value = 10.001; }, "lm loss"),
              1e-3 / (1e-4 + 5e-7), 1e-6);
  EXPECT_NEAR(misfit([](auto& line) { line.grad_norm->value = 5.002; }, "grad norm"), 2, 1e-4);
  EXPECT_EQ(misfit([](auto& line) { line.consumed_samples = 41; }, "consumed samples"), 2);
  EXPECT_GT(misfit([](auto& line) { line.learning_rate->value = 1.1e-3; }, "learning rate"), 1);
  EXPECT_LT(misfit([](auto& line) { line.learning_rate->value += 4e-10; }, "learning rate"), 1);
  EXPECT_EQ(misfit([](auto& line) { line.losses[0].second.value = kNan; }, "lm loss"),
            kIncomparable);
}

TEST(CompareSteps, SkippedStepsAreInNoMean) {
  const std::vector<StepReport> steps = {step_of(11), step_of(12, true)};
  LoggedInterval line = line_of(10, 12, 11);
  line.line.grad_norm.reset();
  line.line.skipped_iterations = 1;
  EXPECT_EQ(largest_misfit(compare_steps(std::vector{line}, steps, kTolerances)), 0);
  line.line.skipped_iterations = 0;
  EXPECT_GT(largest_misfit(compare_steps(std::vector{line}, steps, kTolerances)), 1);
}

TEST(CompareSteps, ARunThatReadOtherSamplesMayCountThemOrNot) {
  StepReport step = step_of(10);
  step.figures.consumed_train_samples += 8;
  for (const int64_t counted : {40, 48}) {
    LoggedInterval line = line_of(9, 10, 10);
    line.line.consumed_samples = counted;
    const auto figures = compare_steps(std::vector{line}, std::vector{step}, kTolerances, 8);
    EXPECT_EQ(misfit_of(figures, "consumed samples"), 0) << counted;
  }
}

TEST(CompareSamples, ALossWithinTheMarginIsNoDifferenceAndNoGradientIsCompared) {
  const SampledLoss sampled = {
      .samples = 2, .batch_size = 4, .mean = 10, .standard_error = 0.01, .margin = 0.5};
  LoggedInterval line = line_of(9, 10, 10.4);
  auto figures = compare_samples(line.line, sampled, 40, kTolerances);
  EXPECT_EQ(figures.size(), 3u);
  EXPECT_NEAR(misfit_of(figures, "lm loss"), 0.4 / (0.5 + 1e-4 + 5e-7), 1e-6);
  line.line.losses[0].second.value = 10.6;
  EXPECT_GT(misfit_of(compare_samples(line.line, sampled, 40, kTolerances), "lm loss"), 1);
  line.line.batch_size = 8;
  EXPECT_GT(misfit_of(compare_samples(line.line, sampled, 40, kTolerances), "global batch size"),
            1);
  EXPECT_EQ(misfit_of(compare_samples(line.line, sampled, 48, kTolerances, 8), "consumed samples"),
            0);
}

Verdict verdict_of(double misfit, const std::vector<double>& of_trials) {
  Verdict verdict;
  verdict.figures = {{.iteration = 1, .name = "lm loss", .misfit = misfit}};
  for (const double each : of_trials) {
    verdict.trials.push_back(
        {.name = "trial", .cause = {}, .figures = {}, .misfit = each, .error = {}});
  }
  return verdict;
}

TEST(VerdictTest, ACauseFitsOrExplainsNearlyAllAlone) {
  EXPECT_TRUE(verdict_of(1, {}).equal());
  EXPECT_EQ(verdict_of(1, {}).cause(), nullptr);
  const Verdict fits = verdict_of(1000, {0.5, 0.7, 300});
  EXPECT_FALSE(fits.equal());
  EXPECT_EQ(fits.cause(), fits.trials.data());
  EXPECT_EQ(fits.likely(), nullptr);
  const Verdict likely = verdict_of(1000, {9, 91});
  EXPECT_EQ(likely.cause(), likely.trials.data());
  for (const auto& trials : std::vector<std::vector<double>>{{}, {11, 500}, {9, 89}}) {
    EXPECT_EQ(verdict_of(1000, trials).cause(), nullptr);
  }
}

TEST(BothTest, TwoFaultsAreOneAfterTheOther) {
  std::vector<int> order;
  const auto fault = [&order](int number, FirstChange first) {
    return Hypothesis{
        .name = std::to_string(number),
        .cause = "cause " + std::to_string(number),
        .first = first,
        .options = [&order, number](train::TrainerOptions&) { order.push_back(number); },
        .sample_shift = number};
  };
  const Hypothesis two = both(fault(1, FirstChange::kUpdate), fault(2, FirstChange::kLoss));
  train::TrainerOptions run;
  two.options(run);
  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_EQ(two.name, "1 + 2");
  EXPECT_EQ(two.cause, "cause 1; and cause 2");
  EXPECT_EQ(two.first, FirstChange::kLoss);
  EXPECT_EQ(two.sample_shift, 3);
}

}  // namespace
}  // namespace meg::resume
