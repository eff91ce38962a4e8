// The dynamic loss scale, against tables of the real Megatron-LM's DynamicGradScaler.

#include <gtest/gtest.h>

#include <limits>

#include "libmeg/schedule/grad_scaler.h"
#include "tests/train/oracle_json.h"

namespace meg::schedule {
namespace {

using nlohmann::json;

/// null: infinity.
float number(const json& value) {
  return value.is_null() ? std::numeric_limits<float>::infinity()
                         : static_cast<float>(value.get<double>());
}

TEST(GradScalerGolden, EveryRowOfEverySettingIsMegatrons) {
  MEG_REQUIRE_SHARED("oracle/training");
  size_t rows = 0;
  const json all = test::oracle_json("grad_scaler.json")["tables"];
  for (const auto& [revision, tables] : all.items()) {
    for (const json& table : tables) {
      const json& setting = table["setting"];
      SCOPED_TRACE(revision + " " + setting.dump());
      const auto scaler = DynamicGradScaler::create({.initial_scale = setting["initial_scale"],
                                                     .min_scale = setting["min_scale"],
                                                     .growth_factor = setting["growth_factor"],
                                                     .backoff_factor = setting["backoff_factor"],
                                                     .growth_interval = setting["growth_interval"],
                                                     .hysteresis = setting["hysteresis"]});
      ASSERT_TRUE(scaler.has_value()) << scaler.error().message();
      for (const json& row : table["rows"]) {
        (*scaler)->update(row[0] != 0);
        EXPECT_EQ((*scaler)->scale(), number(row[1]));
        EXPECT_EQ((*scaler)->inv_scale(), number(row[2]));
        EXPECT_EQ(*(*scaler)->state_dict(), (GradScaler::State{number(row[1]), row[3], row[4]}));
        ++rows;
      }
    }
  }
  EXPECT_GE(rows, 900u);
}

}  // namespace
}  // namespace meg::schedule
