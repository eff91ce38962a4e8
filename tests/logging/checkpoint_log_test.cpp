#include "libmeg/logging/checkpoint_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meg::logging {
namespace {

using ::testing::MatchesRegex;

constexpr ModelRank kRank = {
    .tensor_rank = 0, .tensor_size = 2, .pipeline_rank = 0, .pipeline_size = 4};

CheckpointLog log_of(std::string_view revision) {
  return CheckpointLog(megatron::parse_megatron_version(revision)->checkpoint_lines);
}

CheckpointLog::Time moment() {
  return std::chrono::system_clock::from_time_t(1770000000) + std::chrono::microseconds(4321);
}

/// Each line stands in save_checkpoint or load_checkpoint of the revision's checkpointing.py.
struct Revision {
  const char* name;
  const char* saving;
  const char* saved;
  const char* loading;
  const char* loaded;
};

constexpr const char* kDate = "\\[....-..-.. ..:..:..\\.004321\\] ";

class CheckpointLogOf : public ::testing::TestWithParam<Revision> {};

TEST_P(CheckpointLogOf, LinesAreTheRevisions) {
  const Revision& expected = GetParam();
  const CheckpointLog log = log_of(expected.name);
  const auto line = [](const char* text) {
    std::string pattern;
    for (const char* at = text; *at != 0; ++at) {
      if (*at == '@') {
        pattern += kDate;
      } else {
        if (*at == '[' || *at == ']') pattern += '\\';
        pattern += *at;
      }
    }
    return MatchesRegex(pattern);
  };
  EXPECT_THAT(log.saving_line(20, "runs", "torch", moment()), line(expected.saving));
  EXPECT_THAT(log.saved_line(20, "runs", kRank, moment()), line(expected.saved));
  EXPECT_THAT(log.loading_line(0, "runs", true, false), line(expected.loading));
  EXPECT_THAT(log.loaded_line(20, "runs", kRank), line(expected.loaded));
}

constexpr const char* kReleaseLine = " loading release checkpoint from runs";

/// @: the date.
INSTANTIATE_TEST_SUITE_P(
    Revisions, CheckpointLogOf,
    ::testing::Values(
        Revision{"v2.6", "saving checkpoint at iteration      20 to runs",
                 "  successfully saved checkpoint at iteration      20 to runs",
                 " loading checkpoint from runs at iteration 0",
                 "  successfully loaded checkpoint from runs at iteration 20"},
        Revision{"core_v0.5.0", "saving checkpoint at iteration      20 to runs",
                 "  successfully saved checkpoint at iteration      20 to runs", kReleaseLine,
                 "  successfully loaded checkpoint from runs at iteration 20"},
        Revision{"core_v0.6.0", "saving checkpoint at iteration      20 to runs in torch format",
                 "  successfully saved checkpoint at iteration      20 to runs", kReleaseLine,
                 "  successfully loaded checkpoint from runs [ t 0, p 0 ] at iteration 20"},
        Revision{"core_v0.9.0", "saving checkpoint at iteration      20 to runs in torch format",
                 "  successfully saved checkpoint from iteration      20 to runs", kReleaseLine,
                 "  successfully loaded checkpoint from runs [ t 0, p 0 ] at iteration 20"},
        Revision{"core_v0.10.0", "saving checkpoint at iteration      20 to runs in torch format",
                 "  successfully saved checkpoint from iteration      20 to runs [ t 1/2, p 1/4 ]",
                 kReleaseLine,
                 "  successfully loaded checkpoint from runs [ t 1/2, p 1/4 ] at iteration 20"},
        Revision{"core_v0.16.0", "@saving checkpoint at iteration      20 to runs in torch format",
                 "  @successfully saved checkpoint from iteration      20 to runs [ t 1/2, p 1/4 ]",
                 kReleaseLine,
                 "  successfully loaded checkpoint from runs [ t 1/2, p 1/4 ] at iteration 20"},
        Revision{"core_v0.19.0", "@saving checkpoint at iteration      20 to runs in torch format",
                 "  @successfully saved checkpoint from iteration      20 to runs "
                 "[ t 1/2, gtp_remat 1/1, p 1/4 ]",
                 kReleaseLine,
                 "  successfully loaded checkpoint from runs [ t 1/2, gtp_remat 1/1, p 1/4 ] "
                 "at iteration 20"}),
    [](const auto& test) {
      std::string name = test.param.name;
      for (char& character : name) character = std::isalnum(character) ? character : '_';
      return name;
    });

TEST(CheckpointLog, DistributedCheckpointsAreNamed) {
  EXPECT_EQ(log_of("core_v0.6.0").loading_line(20, "runs", false, true),
            " loading distributed checkpoint from runs at iteration 20");
  EXPECT_EQ(log_of("core_v0.19.0").loading_line(0, "runs", true, true),
            " loading release distributed checkpoint from runs");
}

}  // namespace
}  // namespace meg::logging
