#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libmeg/model/parameter_table.h"
#include "tests/model/golden_names.h"

namespace meg::model {
namespace {

using test::expected_family;
using test::mp_rank_cases;
using test::shared_path;

class ParameterNamesGolden : public testing::Test {
 protected:
  void SetUp() override { MEG_REQUIRE_SHARED("oracle/checkpoints"); }

  ParameterTable table_ = std::move(ParameterTable::gpt()).value();
};

TEST_F(ParameterNamesGolden, EveryTensorOfEveryCaseIsKnownInItsFamily) {
  for (const std::string& name : mp_rank_cases()) {
    SCOPED_TRACE(name);
    size_t count = 0;
    for (const auto& [file, tensors] : test::model_tensors(name)) {
      for (const auto& [tensor, entry] : tensors) {
        const auto match = table_.match(tensor);
        ASSERT_TRUE(match) << tensor;
        EXPECT_THAT(match->families, testing::Contains(expected_family(name))) << tensor;
        EXPECT_FALSE(match->is_expert) << tensor;
        EXPECT_EQ(match->is_extra_state, tensor.ends_with("_extra_state")) << tensor;
        EXPECT_EQ(match->layer.has_value(), tensor.find("layers.") != std::string::npos) << tensor;
        const std::string spelled =
            match->layer ? with_layer(match->spelling, *match->layer) : match->spelling;
        EXPECT_EQ(spelled, tensor);
        ++count;
      }
    }
    EXPECT_GT(count, 10U);
  }
}

TEST_F(ParameterNamesGolden, EverySpellingIsFoundFromItsCanonicalName) {
  for (const std::string& name : mp_rank_cases()) {
    SCOPED_TRACE(name);
    const NameFamily family = expected_family(name);
    for (const auto& [key, value] : test::model_keys(name)) {
      const auto match = table_.match(key);
      ASSERT_TRUE(match) << key;
      if (match->is_expert) continue;
      const bool is_short = table_.spell(match->canonical, family) != match->spelling;
      EXPECT_EQ(table_.spell(match->canonical, family, is_short), match->spelling) << key;
      EXPECT_EQ(is_short, key.find("_norm.") != std::string::npos) << key;
    }
  }
}

TEST_F(ParameterNamesGolden, KeysNestAsInTheFiles) {
  for (const std::string& name : mp_rank_cases()) {
    SCOPED_TRACE(name);
    const NameFamily family = expected_family(name);
    const test::Json structure =
        test::read_json(shared_path("oracle/checkpoints/" + name + "/structure.json"));
    const test::Json& file = structure.begin().value();
    for (const char* chunk : {"model", "model0", "module"}) {
      if (!file.contains(chunk)) continue;
      test::ModelKeys keys;
      test::collect_keys(file[chunk], "", &keys);
      for (const auto& [key, value] : keys) {
        const test::Json* at = &file[chunk];
        for (const std::string& step : nested_keys(key, family)) {
          ASSERT_TRUE(at->contains(step)) << key << ": " << step;
          at = &(*at)[step];
        }
        EXPECT_EQ(*at, value) << key;
      }
    }
  }
}

}  // namespace
}  // namespace meg::model
