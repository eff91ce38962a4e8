#include "libmeg/megatron/python_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace meg::megatron {
namespace {

// What int() and float() of Python 3.12 say of the same texts.

TEST(PythonNumberTest, ReadsIntegersAsInt) {
  const std::pair<const char*, int64_t> right[] = {
      {"0", 0},
      {"-3", -3},
      {"+3", 3},
      {"007", 7},
      {"-0", 0},
      {"1_000", 1000},
      {"1_0_0", 100},
      {"-1_0", -10},
      {"+1_0", 10},
      {"0_0", 0},
      {" 5", 5},
      {"5\n", 5},
      {"\t-5\v", -5},
      {"00_1", 1},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
      {"-9_223_372_036_854_775_808", std::numeric_limits<int64_t>::min()}};
  for (const auto& [text, number] : right) {
    const auto found = python_int(text);
    ASSERT_TRUE(found.has_value()) << text;
    EXPECT_EQ(*found, number) << text;
  }
}

TEST(PythonNumberTest, RefusesWhatIntRefuses) {
  for (const char* text :
       {"",    " ",   "_1",  "1_",  "1__0", "-_1", "+_1",  "_", "+",      "-",    "+-1",
        "-+1", "--1", "- 1", "1 0", "1.0",  "1e3", "0x10", "x", "\x1c 5", "1_ 0", "1_-0"}) {
    EXPECT_EQ(python_int(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(PythonNumberTest, DetectsNumbersBeyond64Bits) {
  for (const char* text : {"9223372036854775808", "-9_223_372_036_854_775_809"}) {
    EXPECT_EQ(python_int(text).status().code(), StatusCode::kOutOfRange) << text;
  }
}

TEST(PythonNumberTest, ReadsNumbersAsFloat) {
  const std::pair<const char*, double> right[] = {
      {"1_000.5", 1000.5}, {"1e1_0", 1e10},   {"1_0e-0_1", 1},         {".5", 0.5},
      {"5.", 5},           {"+.5", 0.5},      {"-5.e1", -50},          {" 1.5\n", 1.5},
      {"1_0.0_1", 10.01},  {"inf", INFINITY}, {"-Infinity", -INFINITY}};
  for (const auto& [text, number] : right) {
    const auto found = python_float(text);
    ASSERT_TRUE(found.has_value()) << text;
    EXPECT_EQ(*found, number) << text;
  }
  EXPECT_TRUE(std::isnan(*python_float("NaN")));
}

TEST(PythonNumberTest, RefusesWhatFloatRefuses) {
  for (const char* text : {"", "_1.0", "1_.0", "1._0", "1.0_", "1__0.0", "1_e3", "1e_3", "1e3_",
                           "nan(1)", "i_nf", "0x1p3", "1.5.", "+-1", "1e", "."}) {
    EXPECT_FALSE(python_float(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace meg::megatron
