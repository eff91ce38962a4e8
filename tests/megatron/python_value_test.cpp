#include "libmeg/megatron/python_value.h"

#include <gtest/gtest.h>

namespace meg::megatron {
namespace {

using Words = std::vector<std::string>;

TEST(PythonValueTest, ReadsScalars) {
  EXPECT_EQ(parse_python_value("None"), (FieldValue()));
  EXPECT_EQ(parse_python_value("True"), FieldValue(true));
  EXPECT_EQ(parse_python_value("False"), FieldValue(false));
  EXPECT_EQ(parse_python_value("-12"), FieldValue(int64_t{-12}));
  EXPECT_EQ(parse_python_value("4294967296.0"), FieldValue(4294967296.0));
  EXPECT_EQ(parse_python_value("1e-05"), FieldValue(1e-5));
  EXPECT_EQ(parse_python_value("'adam'"), FieldValue("adam"));
  EXPECT_EQ(parse_python_value("\"it's\""), FieldValue("it's"));
  EXPECT_EQ(parse_python_value("'it\\'s'"), FieldValue("it's"));
  EXPECT_EQ(parse_python_value("''"), FieldValue(""));
}

TEST(PythonValueTest, ReadsListsAsWords) {
  EXPECT_EQ(parse_python_value("[]"), FieldValue(Words{}));
  EXPECT_EQ(parse_python_value("['a, b', \"c\"]"), FieldValue(Words{"a, b", "c"}));
  EXPECT_EQ(parse_python_value("[64, 1024]"), FieldValue(Words{"64", "1024"}));
  EXPECT_EQ(parse_python_value("(0.9, 0.95,)"), FieldValue(Words{"0.9", "0.95"}));
}

TEST(PythonValueTest, RefusesWhatIsNoLiteral) {
  for (const char* text : {"", "AttnBackend.auto", "inf", "nan", "'open", "[1, 2", "[1 2]", "1 2",
                           "1x", "none", "'a' 'b'", "[[1]]", "'\\n'"}) {
    EXPECT_EQ(parse_python_value(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace meg::megatron
