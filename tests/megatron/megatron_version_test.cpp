#include "libmeg/megatron/megatron_version.h"

#include <gmock/gmock.h>

#include <string>

namespace meg::megatron {
namespace {

std::string row_of(std::string_view name) {
  const auto version = parse_megatron_version(name);
  return version.has_value() ? std::string(version->name) : version.error().message();
}

TEST(MegatronVersion, EveryRowIsFoundByItsName) {
  for (const MegatronVersion& version : megatron_versions()) {
    EXPECT_EQ(row_of(version.name), version.name);
  }
  EXPECT_EQ(newest_megatron_version().name, "core_v0.19.0");
}

TEST(MegatronVersion, ATagBetweenTwoRowsTakesTheLower) {
  EXPECT_EQ(row_of("core_v0.9.2"), "core_v0.9.0");
  EXPECT_EQ(row_of("core_v0.12.3"), "core_v0.12.0");
  EXPECT_EQ(row_of("core_v0.15.0rc3"), "core_v0.14.0");
  EXPECT_EQ(row_of("core_v0.2.0"), "6ef5bdc");
  EXPECT_EQ(row_of("core_v0.19.1"), "core_v0.19.0");
  EXPECT_EQ(row_of("v3.0"), "v2.6");
}

TEST(MegatronVersion, TakesOtherSpellings) {
  EXPECT_EQ(row_of("core_r0.9.0"), "core_v0.9.0");
  EXPECT_EQ(row_of("0.9.0"), "core_v0.9.0");
  EXPECT_EQ(row_of("0.10"), "core_v0.10.0");
  EXPECT_EQ(row_of("v0.16.1"), "core_v0.16.0");
  EXPECT_EQ(row_of("6ef5bdc5b1c6"), "6ef5bdc");
}

TEST(MegatronVersion, RefusesTheRestAndNamesWhatItTakes) {
  for (const char* name : {"", "2", "v1.0", "v2.5", "core_v0.20.0", "core_v2.6", "0.9.x", "main"}) {
    EXPECT_THAT(row_of(name), testing::HasSubstr("expected one of v2.6, 6ef5bdc, core_v0.4.0"));
  }
}

TEST(MegatronVersion, KnowsWhatChanged) {
  EXPECT_TRUE(parse_megatron_version("v2.6")->skip_empty_documents);
  EXPECT_FALSE(parse_megatron_version("6ef5bdc")->skip_empty_documents);
  EXPECT_FALSE(parse_megatron_version("core_v0.14.0")->gpt2_special_tokens_in_text);
  EXPECT_TRUE(parse_megatron_version("core_v0.15.0")->gpt2_special_tokens_in_text);
  EXPECT_FALSE(parse_megatron_version("core_v0.16.0")->skipped_iterations_from_one);
  EXPECT_TRUE(parse_megatron_version("core_v0.17.0")->skipped_iterations_from_one);
  EXPECT_FALSE(parse_megatron_version("core_v0.5.0")->dated_log_lines);
  EXPECT_TRUE(parse_megatron_version("core_v0.6.0")->dated_log_lines);
}

}  // namespace
}  // namespace meg::megatron
