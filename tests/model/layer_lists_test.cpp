#include "libmeg/model/layer_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace meg::model {
namespace {

using megatron::FieldValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Layers = std::vector<bool>;

/// moe_layer_freq of six layers.
Result<Layers> with_experts(const FieldValue& value, int64_t num_layers = 6) {
  return layers_with_experts(
      [&](std::string_view name) -> std::optional<FieldValue> {
        EXPECT_EQ(name, "moe_layer_freq");
        return value;
      },
      num_layers);
}

TEST(LayersWithExperts, NumbersCountFromTheFirstLayer) {
  EXPECT_THAT(*with_experts(FieldValue()), IsEmpty());
  EXPECT_THAT(*with_experts(int64_t{1}), IsEmpty());
  EXPECT_EQ(*with_experts(int64_t{2}), (Layers{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(*with_experts(std::string("4")), (Layers{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(*with_experts(int64_t{100}), (Layers{1, 0, 0, 0, 0, 0}));
}

TEST(LayersWithExperts, ListsAndExpressionsAreEvaluatedAsPythonDoes) {
  EXPECT_EQ(*with_experts(std::vector<std::string>{"0", "1", "1", "1", "0", "1"}),
            (Layers{0, 1, 1, 1, 0, 1}));
  for (const char* text :
       {"[0,1,1,0,1,1]", "[0, 1, 1, 0, 1, 1]", "([0]+[1]*2)*2", "2*([0]*1+[1]*2)",
        "[0]+[1]*2+[0]+[1,1,]", "([0]+[1]*(1+1))*(1*2)", "[0,0+1,1]*2", "[1]*0+[0,1,1]*2"}) {
    const Result<Layers> found = with_experts(std::string(text));
    ASSERT_TRUE(found.has_value()) << text;
    EXPECT_EQ(*found, (Layers{0, 1, 1, 0, 1, 1})) << text;
  }
}

TEST(LayersWithExperts, RefusesWhatIsNoListOfAllLayers) {
  for (const char* text :
       {"0", "", "[1]*5", "[1]*7", "[2]*6", "[[1]]*6", "[1]*6)", "([1]*6", "[1]*[1]*6", "[1]+6",
        "[1]*999999999999", "[1 1 1 1 1 1]", "[1]**6", "1.5", "all", "[-1]*6", "6*",
        "[1]*9223372036854775807+[1]*9223372036854775807"}) {
    const Result<Layers> found = with_experts(std::string(text));
    ASSERT_FALSE(found.has_value()) << text;
    EXPECT_EQ(found.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(found.error().message(), HasSubstr("moe_layer_freq: expected a number or a list"));
  }
  const std::string deep = std::string(1000, '(') + "[1]*6" + std::string(1000, ')');
  EXPECT_FALSE(with_experts(deep).has_value());
  EXPECT_FALSE(with_experts(int64_t{-1}).has_value());
  EXPECT_FALSE(with_experts(int64_t{2}, int64_t{1} << 40).has_value());
}

TEST(LayerLists, AreKeptAsMegatronDoes) {
  EXPECT_EQ(evaluated_layer_list(std::string("2"), 4), FieldValue(int64_t{2}));
  EXPECT_EQ(evaluated_layer_list(std::string("[1,0]*2"), 4),
            FieldValue(std::vector<std::string>{"1", "0", "1", "0"}));
  EXPECT_EQ(evaluated_layer_list(FieldValue(), 4), FieldValue());
}

TEST(LayerLists, WindowsAndRopeCountOtherwise) {
  const megatron::FieldLookup three = [](std::string_view) { return FieldValue(int64_t{3}); };
  EXPECT_THAT(*window_layers(three, 4), ElementsAre(true, true, false, true));
  EXPECT_THAT(*layers_without_rope(three, 4), ElementsAre(false, false, true, false));
}

}  // namespace
}  // namespace meg::model
