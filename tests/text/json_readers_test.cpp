#include "tests/text/json_readers.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace meg::text {
namespace {

using Random = std::mt19937;

size_t below(Random& random, size_t limit) { return random() % limit; }

/// One of the pieces that strings are made of; most are valid.
std::string random_piece(Random& random) {
  static const std::vector<std::string> kPieces{"a",
                                                "the quick ",
                                                "\\n",
                                                "\\\"",
                                                "\\\\",
                                                "\\/",
                                                "\\t\\r",
                                                "\\b\\f",
                                                "\\u0041",
                                                "\\u00e9",
                                                "\\u043F",
                                                "\\u20ac",
                                                "\\u0000",
                                                "\\uD7FF\\uE000",
                                                "\u00e9",
                                                "\u20ac",
                                                "\U0001F600",
                                                "\\ud83d\\ude00",
                                                "\\u007f\\u0080\\u07ff\\u0800\\uffff",
                                                "\x7f",
                                                "{}[],:",
                                                " \\u0430\\u0431 \\u0432",
                                                "\\u1234\\u5678\\u9abc\\udef0"};
  static const std::vector<std::string> kRare{"\\ud83d", "\\ude00",      "\\x41", "\\u12g4", "\x01",
                                              "\xff",    "\xed\xa0\x80", "\"",    "\\",      "\n"};
  if (below(random, 400) == 0) return kRare[below(random, kRare.size())];
  if (below(random, 6) == 0) return std::string(below(random, 80), 'x');
  return kPieces[below(random, kPieces.size())];
}

std::string random_string(Random& random) {
  std::string string = "\"";
  for (size_t i = below(random, 12); i > 0; --i) string += random_piece(random);
  return string + '"';
}

std::string random_value(Random& random, int depth) {
  static const std::vector<std::string> kPlain{"null",
                                               "true",
                                               "false",
                                               "NaN",
                                               "Infinity",
                                               "-Infinity",
                                               "0",
                                               "-0",
                                               "1e400",
                                               "-1.5E-3",
                                               "12345678901234567890123",
                                               "0.1e+1"};
  const size_t kind = below(random, depth > 3 ? 8 : 10);
  if (kind < 4) return random_string(random);
  if (kind < 8) return kPlain[below(random, kPlain.size())];
  std::string value = kind == 8 ? "[" : "{";
  for (size_t i = below(random, 4); i > 0; --i) {
    if (kind == 9) value += random_string(random) + ":";
    value += random_value(random, depth + 1) + (i > 1 ? ", " : "");
  }
  return value + (kind == 8 ? "]" : "}");
}

std::string random_texts(Random& random) {
  if (below(random, 4) != 0) return random_string(random);
  std::string list = "[";
  for (size_t i = below(random, 4); i > 0; --i) list += random_string(random) + (i > 1 ? "," : "");
  return list + "]";
}

std::string random_line(Random& random) {
  static const std::vector<std::string> kSpaces{"", "", " ", "\t", "  \r\n "};
  const auto space = [&] { return kSpaces[below(random, kSpaces.size())]; };
  std::string line = space() + "{" + space();
  const std::string texts = "\"text\":" + space() + random_texts(random);
  const std::string other = "\"b\"" + space() + ":" + random_texts(random);
  line += below(random, 2) == 0 ? texts + space() + "," + other : other + "," + texts;
  for (size_t i = below(random, 3); i > 0; --i) {
    const std::string key = below(random, 8) == 0 ? random_string(random) : "\"key\"";
    line += space() + "," + space() + key + ":" + random_value(random, 1);
  }
  if (below(random, 8) == 0) line += ",\"text\" :" + random_texts(random);
  return line + space() + "}" + space();
}

/// One byte changed, taken out, put in, or the end cut off.
std::string mutated(std::string line, Random& random) {
  static const std::string kBytes =
      "\"\\{}[]:,0u-+.eE \t\n\x01\x7f\x80\xff"
      "aN";
  const size_t at = below(random, line.size());
  const char byte = kBytes[below(random, kBytes.size())];
  switch (below(random, 4)) {
    case 0:
      line[at] = byte;
      return line;
    case 1:
      return line.erase(at, 1);
    case 2:
      return line.insert(at, 1, byte);
    default:
      return line.substr(0, at);
  }
}

/// Whether the fast reader takes the line.
bool is_fast(const std::string& line) {
  text::FastJsonReader reader({"text"});
  return reader.read(test::PaddedLine(line).view());
}

TEST(JsonReaders, AgreeOnGeneratedAndMutatedLines) {
  constexpr int kLines = 20000;
  Random random(20240501);
  size_t taken = 0;
  for (int i = 0; i < kLines; ++i) {
    std::string line = random_line(random);
    taken += is_fast(line);
    const char padding = "\0\"\\}0x"[below(random, 6)];
    for (const auto set : test::instruction_sets()) {
      ASSERT_EQ(test::difference_of_readers(line, set, padding), "");
      const std::string worse = mutated(line, random);
      ASSERT_EQ(test::difference_of_readers(worse, set, padding), "");
    }
  }
  EXPECT_GT(taken, size_t{kLines} / 2) << "the fast reader leaves too much to the strict one";
}

TEST(JsonReaders, AgreeWhereverAnEscapeMeetsAVectorsEdge) {
  const std::vector<std::string> escapes{
      "\\n",     "\\\\",    "\\\\\\\"",       "\\u0041",
      "\\u00e9", "\\u20ac", "\\ud83d\\ude00", "\\u0430\\u0431\\u0432",
      "\\ud83d", "\\q",     "\\u123"};
  for (const std::string& escape : escapes) {
    for (size_t before = 0; before < 140; ++before) {
      const std::string line =
          "{\"b\":[],\"text\":\"" + std::string(before, 'x') + escape + escape + "yz\"}";
      for (const auto set : test::instruction_sets()) {
        for (const char padding : {'\0', '"', '\\'}) {
          ASSERT_EQ(test::difference_of_readers(line, set, padding), "");
          for (size_t cut = 1; cut < 20; ++cut) {
            const std::string_view part(line.data(), line.size() - cut);
            ASSERT_EQ(test::difference_of_readers(part, set, padding), "");
          }
        }
      }
    }
  }
}

/// A line with a value of lists, or of objects, `depth` inside one another.
std::string nested(int depth, bool objects, const std::string& innermost) {
  std::string value = innermost;
  for (int i = 0; i < depth; ++i) value = objects ? "{\"k\": " + value + "}" : "[" + value + "]";
  return "{\"b\": [], \"meta\": " + value + ", \"text\": \"a\"}";
}

TEST(JsonReaders, FastReaderTakesNestingUpToTheStrictReadersLimit) {
  for (const bool objects : {false, true}) {
    for (const int depth : {1, 99, 100, 101, 997, 998, 999, 1000, 1001}) {
      for (const std::string innermost : {"[]", "{}", "1", "[1]", "{\"k\": []}"}) {
        const std::string line = nested(depth, objects, innermost);
        text::PythonJsonReader strict({"text"});
        EXPECT_EQ(is_fast(line), strict.read(line).ok()) << depth << innermost;
        for (const auto set : test::instruction_sets()) {
          EXPECT_EQ(test::difference_of_readers(line, set, '"'), "");
        }
      }
    }
  }
}

TEST(JsonReaders, FastReaderTakesOrdinaryLines) {
  for (const std::string line :
       {"{\"text\": \"plain\"}", "{\"id\": 1, \"text\": \"a\\n\\u00e9\\ud83d\\ude00\"}",
        "{\"text\": [\"a\", \"b\"], \"meta\": {\"a\": [1.5, null, true, NaN]}}"}) {
    EXPECT_TRUE(is_fast(line)) << line;
  }
}

}  // namespace
}  // namespace meg::text
