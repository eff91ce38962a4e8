// numpy's own RandomState, as the oracle recorded it.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "libmeg/numpy/npy.h"
#include "libmeg/numpy/random_state.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::numpy {
namespace {

using nlohmann::json;

constexpr char kFolder[] = "oracle/datasets/D/";

json cases() {
  std::ifstream file(test::shared_path(std::string(kFolder) + "rng.json"));
  return json::parse(file)["cases"];
}

template <class T>
std::vector<T> shuffled(RandomState& random, size_t size, T first = 0) {
  std::vector<T> values(size);
  std::iota(values.begin(), values.end(), first);
  random.shuffle(values);
  return values;
}

template <class T>
void expect_shuffle(const json& entry) {
  RandomState random(entry["seed"].get<uint32_t>());
  const auto values = shuffled<T>(random, entry["n"]);
  if (entry.contains("values")) {
    EXPECT_EQ(values, entry["values"].get<std::vector<T>>());
  }
  if (entry.contains("file")) {
    const std::string file =
        test::read_file(test::shared_path(kFolder + entry["file"].get<std::string>()));
    const auto header = npy_header(dtype_of<T>(), {{static_cast<int64_t>(values.size())}});
    const std::string bytes(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(T));
    EXPECT_TRUE(file == *header + bytes);
  }
}

TEST(RandomStateGoldenTest, ShufflesAsNumpy) {
  MEG_REQUIRE_SHARED("oracle/datasets/D/rng.json");
  int found = 0;
  for (const json& entry : cases()) {
    if (!entry.contains("dtype")) continue;
    SCOPED_TRACE(entry.dump().substr(0, 100));
    if (entry["dtype"] == "int32") expect_shuffle<int32_t>(entry);
    if (entry["dtype"] == "uint32") expect_shuffle<uint32_t>(entry);
    if (entry["dtype"] == "int64") expect_shuffle<int64_t>(entry);
    ++found;
  }
  EXPECT_GT(found, 50);
}

TEST(RandomStateGoldenTest, ShufflesOneAfterAnotherAsNumpy) {
  MEG_REQUIRE_SHARED("oracle/datasets/D/rng.json");
  for (const json& entry : cases()) {
    if (!entry.contains("sequence")) continue;
    RandomState random(entry["seed"].get<uint32_t>());
    for (const std::vector<int64_t> expected : entry["values"]) {
      const int64_t first =
          expected.empty() ? 0 : *std::min_element(begin(expected), end(expected));
      EXPECT_EQ(shuffled(random, expected.size(), first), expected);
    }
  }
}

TEST(RandomStateGoldenTest, DrawsNumpysWords) {
  MEG_REQUIRE_SHARED("oracle/datasets/D/rng.json");
  for (const json& entry : cases()) {
    if (!entry.contains("raw_uint32_first_20")) continue;
    RandomState random(entry["seed"].get<uint32_t>());
    for (const uint32_t word : entry["raw_uint32_first_20"]) EXPECT_EQ(random.next(), word);
  }
}

}  // namespace
}  // namespace meg::numpy
