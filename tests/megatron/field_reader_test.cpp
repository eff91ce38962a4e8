#include "libmeg/megatron/field_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libmeg/base/result.h"

namespace meg::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Fields = std::map<std::string, FieldValue, std::less<>>;

FieldLookup lookup_in(Fields fields) {
  return [fields = std::move(fields)](std::string_view name) -> std::optional<FieldValue> {
    const auto found = fields.find(name);
    return found == fields.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(FieldReader, TakesFieldsByTheTypeOfTheVariable) {
  const FieldLookup lookup = lookup_in({{"fp16", true},
                                        {"lr", int64_t{1}},
                                        {"num_workers", int64_t{7}},
                                        {"save", "there"},
                                        {"data_path", std::vector<std::string>{"a b", "c"}},
                                        {"load", FieldValue()}});
  FieldReader args(lookup);
  bool fp16 = false;
  double lr = 0.5;
  int workers = 2;
  std::optional<std::string> save, load;
  std::vector<std::string> paths;
  args.take("fp16", fp16);
  args.take("lr", lr);
  args.take("num_workers", workers);
  args.take("save", save);
  args.take("load", load);
  args.take("data_path", paths);
  EXPECT_TRUE(args.status().ok());
  EXPECT_TRUE(fp16);
  EXPECT_EQ(lr, 1.0) << "an integer is a real number, too";
  EXPECT_EQ(workers, 7);
  EXPECT_EQ(save, "there");
  EXPECT_EQ(load, std::nullopt) << "None";
  EXPECT_THAT(paths, ElementsAre("a b", "c"));
}

TEST(FieldReader, LeavesWhatIsMissingOrNone) {
  const FieldLookup lookup = lookup_in({{"min_lr", FieldValue()}});
  FieldReader args(lookup);
  double min_lr = 0.25;
  int64_t seed = 1234;
  std::vector<std::string> paths = {"kept"};
  args.take("min_lr", min_lr);
  args.take("seed", seed);
  args.take("data_path", paths);
  EXPECT_EQ(min_lr, 0.25);
  EXPECT_EQ(seed, 1234);
  EXPECT_THAT(paths, ElementsAre("kept"));
}

TEST(FieldReader, KeepsTheFirstError) {
  const FieldLookup lookup = lookup_in({{"seed", "many"}, {"lr", "high"}, {"style", "odd"}});
  FieldReader args(lookup);
  int64_t seed = 0;
  double lr = 0;
  args.take("seed", seed);
  args.take("lr", lr);
  EXPECT_EQ(args.status().message(), "seed: expected an integer, found \"many\"");
  FieldReader styles(lookup);
  int style = 0;
  styles.parse("style", style, [](std::string_view) -> Result<int> {
    return Status(StatusCode::kInvalidArgument, "expected linear");
  });
  EXPECT_THAT(styles.status().message(), HasSubstr("style: expected linear"));
}

TEST(FieldsReadBy, NamesEachFieldOnce) {
  const auto fields = fields_read_by([](const FieldLookup& lookup) {
    FieldReader args(lookup);
    std::optional<double> lr;
    args.take("lr", lr);
    args.take("lr", lr);
    (void)args.flag("fp16", false);
  });
  EXPECT_THAT(fields, ElementsAre("lr", "fp16"));
}

TEST(FieldValues, CompareAsPythonDoes) {
  EXPECT_TRUE(same_field(int64_t{10000}, 10000.0));
  EXPECT_TRUE(same_field(true, int64_t{1}));
  EXPECT_FALSE(same_field(FieldValue(), false));
  EXPECT_FALSE(same_field("1", int64_t{1}));
  EXPECT_EQ(field_text(std::vector<std::string>{"a", "b"}), "[\"a\", \"b\"]");
}

}  // namespace
}  // namespace meg::megatron
