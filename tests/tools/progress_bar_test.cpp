#include "tools/common/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace meg::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMegabyte = 1024 * 1024;

/// A bar with a clock and a width that the test sets.
struct Stage {
  explicit Stage(bool live, int64_t log_interval = 1000)
      : bar(out, {.live = live,
                  .log_interval = log_interval,
                  .clock = [this] { return now; },
                  .columns = [this] { return columns; }}) {}

  std::string taken() {
    std::string text = out.str();
    out.str("");
    return text;
  }

  double now = 100;
  size_t columns = 100;
  std::ostringstream out;
  ProgressBar bar;
};

TEST(ProgressBarTest, PrintsMegatronsLineEachInterval) {
  Stage stage(false);
  stage.now = 102;
  stage.bar.update({.documents = 999, .bytes = 3 * kMegabyte});
  EXPECT_EQ(stage.taken(), "");
  stage.bar.update({.documents = 1000, .bytes = 5 * kMegabyte});
  EXPECT_EQ(stage.taken(), "Processed 1000 documents (500.0 docs/s, 2.50 MB/s).\n");
  stage.now = 104;
  stage.bar.finish({.documents = 3100, .bytes = 20 * kMegabyte});
  EXPECT_EQ(stage.taken(),
            "Processed 2000 documents (500.0 docs/s, 5.00 MB/s).\n"
            "Processed 3000 documents (750.0 docs/s, 5.00 MB/s).\n");
}

TEST(ProgressBarTest, NoIntervalMeansNoLines) {
  Stage stage(false, 0);
  stage.bar.finish({.documents = 5000, .bytes = kMegabyte});
  EXPECT_EQ(stage.taken(), "");
}

TEST(ProgressBarTest, RedrawsAtMostTenTimesASecond) {
  Stage stage(true);
  stage.bar.update({.documents = 1, .total_bytes = kMegabyte});
  EXPECT_THAT(stage.taken(), HasSubstr("  0%"));
  stage.now += 0.05;
  stage.bar.update({.documents = 2, .bytes = kMegabyte / 2, .total_bytes = kMegabyte});
  EXPECT_EQ(stage.taken(), "");
  stage.now += 0.06;
  stage.bar.update({.documents = 2, .bytes = kMegabyte / 2, .total_bytes = kMegabyte});
  EXPECT_THAT(stage.taken(), HasSubstr(" 50%"));
}

TEST(ProgressBarTest, FinishClearsTheLineOnce) {
  Stage stage(true);
  stage.bar.update({.documents = 1});
  stage.taken();
  stage.bar.finish({.documents = 2});
  EXPECT_EQ(stage.taken(), "\r\x1b[K");
  stage.bar.clear();
  EXPECT_EQ(stage.taken(), "");
}

TEST(ProgressBarTest, CallbackLetsTheWorkContinue) {
  Stage stage(false);
  EXPECT_TRUE(stage.bar.callback()({.documents = 1000, .bytes = 1}));
  EXPECT_THAT(stage.taken(), HasSubstr("Processed 1000 documents"));
}

TEST(ProgressLineTest, ShowsEveryField) {
  const Progress progress{.documents = 12345,
                          .tokens = 4'560'000,
                          .bytes = 30 * kMegabyte,
                          .total_bytes = 120 * kMegabyte};
  EXPECT_EQ(progress_line(progress, 10, 120),
            "[=========>                            ]  25%  3.0 MB/s  1.23K docs/s  ETA 30s  "
            "4.56M tokens  12.3K docs");
}

TEST(ProgressLineTest, NeverPassesTheWidth) {
  const Progress progress{
      .documents = 5, .tokens = 9, .bytes = kMegabyte, .total_bytes = 3 * kMegabyte};
  for (size_t columns = 0; columns < 200; ++columns) {
    EXPECT_LE(progress_line(progress, 1, columns).size(), columns == 0 ? 0 : columns - 1);
  }
}

TEST(ProgressLineTest, WorkThatCountsDocumentsShowsTokens) {
  const Progress progress{.documents = 5, .tokens = 4000, .total_documents = 20};
  const std::string line = progress_line(progress, 2, 100);
  EXPECT_THAT(line, HasSubstr(" 25%  2.00K tokens/s  2.50 docs/s  ETA 6s"));
  EXPECT_THAT(line, Not(HasSubstr("B/s")));
}

TEST(ProgressLineTest, NamesWhatIsCounted) {
  const Progress progress{.documents = 30, .total_documents = 120, .counted = "iterations"};
  EXPECT_THAT(progress_line(progress, 60, 100),
              HasSubstr(" 25%  0.50 iterations/s  ETA 3:00  30 iterations"));
}

TEST(ProgressLineTest, UnknownSizeHasNoPercentAndNoEta) {
  const std::string line = progress_line({.documents = 5, .bytes = kMegabyte}, 1, 100);
  EXPECT_THAT(line, HasSubstr("1.0 MB/s"));
  EXPECT_THAT(line, Not(HasSubstr("%")));
  EXPECT_THAT(line, Not(HasSubstr("ETA")));
}

TEST(ShortCountTest, KeepsThreeDigits) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(1234), "1.23K");
  EXPECT_EQ(short_count(45600), "45.6K");
  EXPECT_EQ(short_count(999999), "1.00M");
  EXPECT_EQ(short_count(7.89e9), "7.89G");
}

TEST(ShortDurationTest, GrowsToHours) {
  EXPECT_EQ(short_duration(0), "0s");
  EXPECT_EQ(short_duration(58.2), "59s");
  EXPECT_EQ(short_duration(62), "1:02");
  EXPECT_EQ(short_duration(3723), "1:02:03");
  EXPECT_EQ(short_duration(1e300), "99:00:00");
}

}  // namespace
}  // namespace meg::tools
