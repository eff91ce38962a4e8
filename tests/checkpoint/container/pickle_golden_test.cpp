#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "libmeg/checkpoint/container/pickle/pickle_writer.h"
#include "tests/checkpoint/container/data_pkl.h"
#include "tests/shared_data.h"

namespace meg::checkpoint {
namespace {

constexpr const char* kOracle = "oracle/checkpoints";

/// Odd values that torch.save wrote.
constexpr const char* kOdd[] = {"ok_dtypes",
                                "ok_empty",
                                "ok_enums",
                                "ok_extra_state",
                                "ok_fp8",
                                "ok_namespace",
                                "ok_numpy",
                                "ok_parameter",
                                "ok_rank6",
                                "ok_rng",
                                "ok_state_dict_metadata",
                                "ok_uints",
                                "ok_unknown_class",
                                "ok_views"};

/// Every .pt file of the oracle that real Megatron code or torch.save wrote.
std::vector<std::string> golden_files() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::shared_path(kOracle))) {
    const std::string path = entry.path().string();
    if (entry.path().extension() == ".pt" && path.find("/evil/") == std::string::npos) {
      paths.push_back(path);
    }
  }
  for (const char* name : kOdd) {
    paths.push_back(test::shared_path(std::string(kOracle) + "/evil/" + name + ".pt"));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(PickleGolden, WritesTheBytesOfEveryMegatronCheckpointAgain) {
  MEG_REQUIRE_SHARED(kOracle);
  const std::vector<std::string> paths = golden_files();
  ASSERT_GT(paths.size(), 50u);
  for (const std::string& path : paths) {
    const std::optional<std::string> pickle = test::find_data_pkl(test::read_whole_file(path));
    ASSERT_TRUE(pickle) << path;
    PickleGraph graph;
    const auto stream = read_pickle(test::bytes_of(*pickle), path, &graph);
    ASSERT_TRUE(stream) << stream.error().message();
    const auto written = write_pickle(graph, stream->root);
    ASSERT_TRUE(written) << path << ": " << written.error().message();
    const auto expected = test::bytes_of(*pickle).first(stream->size);
    EXPECT_TRUE(std::equal(written->begin(), written->end(), expected.begin(), expected.end()))
        << path;
  }
}

}  // namespace
}  // namespace meg::checkpoint
