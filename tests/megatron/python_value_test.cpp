#include "libmeg/megatron/python_value.h"

#include <gtest/gtest.h>

namespace meg::megatron {
namespace {

using Words = std::vector<std::string>;

TEST(PythonValueTest, ReadsScalars) {
  EXPECT_EQ(parse_python_value("None"), ArgumentValue(FieldValue()));
  EXPECT_EQ(parse_python_value("True"), ArgumentValue(true));
  EXPECT_EQ(parse_python_value("False"), ArgumentValue(false));
  EXPECT_EQ(parse_python_value("-12"), ArgumentValue(int64_t{-12}));
  EXPECT_EQ(parse_python_value("4294967296.0"), ArgumentValue(4294967296.0));
  EXPECT_EQ(parse_python_value("1e-05"), ArgumentValue(1e-5));
  EXPECT_EQ(parse_python_value("'adam'"), ArgumentValue("adam"));
  EXPECT_EQ(parse_python_value("\"it's\""), ArgumentValue("it's"));
  EXPECT_EQ(parse_python_value("'it\\'s'"), ArgumentValue("it's"));
  EXPECT_EQ(parse_python_value("''"), ArgumentValue(""));
}

TEST(PythonValueTest, ReadsListsAsWords) {
  EXPECT_EQ(parse_python_value("[]"), ArgumentValue(Words{}));
  EXPECT_EQ(parse_python_value("['a, b', \"c\"]"), ArgumentValue(Words{"a, b", "c"}));
  EXPECT_EQ(parse_python_value("[64, 1024]"), ArgumentValue(Words{"64", "1024"}));
  EXPECT_EQ(parse_python_value("(0.9, 0.95,)"), ArgumentValue(Words{"0.9", "0.95"}));
}

TEST(PythonValueTest, RefusesWhatIsNoLiteral) {
  for (const char* text : {"", "AttnBackend.auto", "inf", "nan", "'open", "[1, 2", "[1 2]", "1 2",
                           "1x", "none", "'a' 'b'", "[[1]]", "'\\n'"}) {
    EXPECT_EQ(parse_python_value(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace meg::megatron
