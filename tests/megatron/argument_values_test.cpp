#include "libmeg/megatron/argument_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meg::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ArgumentRow row(std::string_view flag, std::string_view dest, std::string_view default_value) {
  ArgumentRow made{};
  made.flag = flag;
  made.dest = dest;
  made.default_value = default_value;
  return made;
}

const ArgumentRow kRows[] = {
    row("--lr", "lr", "None"),
    row("--no-bias-gelu-fusion", "bias_gelu_fusion", "True"),
    row("--use-bias-gelu-fusion", "bias_gelu_fusion", "None"),
    row("--json-keys", "json_keys", "['text', 'id']"),
    row("--attention-backend", "attention_backend", "AttnBackend.auto"),
};

TEST(ArgumentValuesTest, StartsWithTheDefaults) {
  const ArgumentValues values = ArgumentValues::defaults(kRows);
  EXPECT_EQ(values.field("lr"), FieldValue());
  EXPECT_EQ(values.field("bias_gelu_fusion"), FieldValue(true)) << "the first row's";
  EXPECT_EQ(values.field("json_keys"), FieldValue(std::vector<std::string>{"text", "id"}));
  EXPECT_EQ(values.field("attention_backend"), FieldValue("AttnBackend.auto"));
  EXPECT_EQ(values.field("learning_rate"), std::nullopt);
  EXPECT_THAT(values.given_flags(), IsEmpty());
}

TEST(ArgumentValuesTest, KnowsWhatAFlagGave) {
  ArgumentValues values = ArgumentValues::defaults(kRows);
  values.set("lr", 0.5);
  EXPECT_FALSE(values.given("lr"));
  values.give(kRows[0], FieldValue(0.25));
  values.give(kRows[2], FieldValue(true));
  values.give(kRows[0], FieldValue(0.125));
  EXPECT_TRUE(values.given("lr"));
  EXPECT_EQ(values.field("lr"), FieldValue(0.125));
  EXPECT_THAT(values.given_flags(), ElementsAre("--lr", "--use-bias-gelu-fusion"));
}

TEST(ArgumentValuesTest, KeepsWhatIsThereWhenRowsAreAdded) {
  ArgumentValues values;
  values.set("lr", 0.5);
  values.set("derived", std::vector<std::string>{"a"});
  values.add_defaults(kRows);
  EXPECT_EQ(values.field("lr"), FieldValue(0.5));
  EXPECT_EQ(values.field("derived"), FieldValue(std::vector<std::string>{"a"}));
  EXPECT_EQ(values.lookup()("bias_gelu_fusion"), FieldValue(true));
}

}  // namespace
}  // namespace meg::megatron
