#include "libmeg/parallel/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace meg::parallel {
namespace {

using ::testing::HasSubstr;

EnvironmentLookup lookup_in(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(LaunchEnvironmentTest, WithoutLauncherOneRankAlone) {
  const auto found = read_launch_environment(lookup_in({}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 0);
  EXPECT_EQ(found->world_size, 1);
}

TEST(LaunchEnvironmentTest, ReadsTorchrun) {
  const auto found = read_launch_environment(lookup_in({{"RANK", "5"},
                                                        {"WORLD_SIZE", "8"},
                                                        {"LOCAL_RANK", "1"},
                                                        {"MASTER_ADDR", "node0"},
                                                        {"MASTER_PORT", "6000"},
                                                        {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->world_size, 8);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->master_addr, "node0");
  EXPECT_EQ(found->master_port, 6000);
  EXPECT_TRUE(found->agent_store);
}

TEST(LaunchEnvironmentTest, ReadsOpenMpiOnOneMachine) {
  const auto found = read_launch_environment(lookup_in({{"OMPI_COMM_WORLD_RANK", "1"},
                                                        {"OMPI_COMM_WORLD_SIZE", "2"},
                                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->master_addr, "127.0.0.1");
  EXPECT_FALSE(found->agent_store);
}

TEST(LaunchEnvironmentTest, SeveralMachinesNeedMasterAddr) {
  std::map<std::string, std::string> variables = {{"SLURM_PROCID", "3"},
                                                  {"SLURM_NTASKS", "8"},
                                                  {"SLURM_LOCALID", "3"},
                                                  {"SLURM_TASKS_PER_NODE", "4(x2)"}};
  const auto alone = read_launch_environment(lookup_in(variables));
  ASSERT_FALSE(alone.has_value());
  EXPECT_THAT(alone.error().message(), HasSubstr("MASTER_ADDR is not set"));
  variables["MASTER_ADDR"] = "node0";
  const auto found = read_launch_environment(lookup_in(variables));
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->local_rank, 3);
  EXPECT_EQ(found->world_size, 8);
}

TEST(LaunchEnvironmentTest, RejectsNonsense) {
  const auto rank = read_launch_environment(lookup_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}));
  ASSERT_FALSE(rank.has_value());
  EXPECT_EQ(rank.error().message(),
            "environment variable RANK: expected an integer of 0 to 1, found \"2\"");
  const auto missing = read_launch_environment(lookup_in({{"RANK", "0"}}));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message(), "environment variable WORLD_SIZE is not set");
  const auto port = read_launch_environment(lookup_in(
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "70000"}}));
  ASSERT_FALSE(port.has_value());
  EXPECT_THAT(port.error().message(), HasSubstr("expected an integer of 0 to 65535"));
}

}  // namespace
}  // namespace meg::parallel
