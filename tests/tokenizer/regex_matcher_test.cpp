// Regular expressions mean here what they mean to tokenizers: expected words are what its
// pre_tokenizers.Split gives, version 0.23.3.

#include "libmeg/tokenizer/regex/internal/regex_matcher.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meg::tokenizer {
namespace {

using Words = std::vector<std::string>;

/// Matches and what lies between them.
Words split(const std::string& pattern, std::string_view text,
            RegexMatcher::Dialect dialect = RegexMatcher::Dialect::kOniguruma) {
  const auto matcher = RegexMatcher::compile(pattern, "pattern", dialect);
  EXPECT_TRUE(matcher) << matcher.status().message();
  Words words;
  size_t at = 0;
  while (const auto found = *matcher->find(text, at)) {
    if (found->first > at) words.emplace_back(text.substr(at, found->first - at));
    words.emplace_back(text.substr(found->first, found->second - found->first));
    at = found->second;
  }
  if (at < text.size()) words.emplace_back(text.substr(at));
  return words;
}

TEST(RegexMatcher, RepeatsAnIntervalThatAPlusFollows) {
  EXPECT_EQ(split("a{2}+", "aaaaaaa"), (Words{"aaaaaa", "a"}));
  EXPECT_EQ(split("a{2}+?", "aaaaaab"), (Words{"aa", "aa", "aa", "b"}));
  EXPECT_EQ(split("a{2,3}+a", "aaaaa"), (Words{"aaaa", "a"}));
  EXPECT_EQ(split("a{2,}+a", "aaa"), (Words{"aaa"}));
  EXPECT_EQ(split("\\p{N}{1,3}+", "a1234567b"), (Words{"a", "1234567", "b"}));
  EXPECT_EQ(split("(a[)]b|c){2}+", "a)bca)b"), (Words{"a)bc", "a)b"}));
  EXPECT_EQ(split("\\x{61}{1,2}+", "aaab"), (Words{"aaa", "b"}));
  EXPECT_EQ(split("[a{2}+]", "a{2}+"), (Words{"a", "{", "2", "}", "+"}));
  EXPECT_EQ(split("\u00e9{2}+", "\u00e9\u00e9\u00e9\u00e9\u00e9"),
            (Words{"\u00e9\u00e9\u00e9\u00e9", "\u00e9"}));
}

TEST(RegexMatcher, TakesAScriptWithoutWhatItSharesWithOthers) {
  // U+3002 and U+30FC are of no script alone, but used with Han, with Hiragana and Katakana.
  const std::string text = "\u4e2d\u3002\u3042\u30fca";
  EXPECT_EQ(split("\\p{Han}+", text), (Words{"\u4e2d", "\u3002\u3042\u30fca"}));
  EXPECT_EQ(split("[\\p{Han}\\p{Hiragana}]+", text),
            (Words{"\u4e2d", "\u3002", "\u3042", "\u30fca"}));
  EXPECT_EQ(split("\\P{Hiragana}+", text), (Words{"\u4e2d\u3002", "\u3042", "\u30fca"}));
  EXPECT_EQ(split("\\p{^Latin}+", text), (Words{"\u4e2d\u3002\u3042\u30fc", "a"}));
}

TEST(RegexMatcher, KnowsPropertiesOfThePackagesUnicode) {
  // New in Unicode 15.1, 16 and 17: an ideograph, a digit, a symbol, a capital.
  const std::string text = "\U0002ebf0\U00010d40\U0001cc00\ua7dc";
  EXPECT_EQ(split("\\p{Han}", text), (Words{"\U0002ebf0", "\U00010d40\U0001cc00\ua7dc"}));
  EXPECT_EQ(split("\\p{Nd}", text), (Words{"\U0002ebf0", "\U00010d40", "\U0001cc00\ua7dc"}));
  EXPECT_EQ(split("[\\p{P}\\p{S}]", text), (Words{"\U0002ebf0\U00010d40", "\U0001cc00", "\ua7dc"}));
  EXPECT_EQ(split("[^\\P{Lu}]", text), (Words{"\U0002ebf0\U00010d40\U0001cc00", "\ua7dc"}));
}

TEST(RegexMatcher, RefusesPropertiesWithoutTables) {
  for (const char* const pattern : {"\\p{Emoji}", "[a\\P{Uppercase}]", "\\p{^Xwd}", "\\p{L&}"}) {
    const auto compiled = RegexMatcher::compile(pattern, "pattern");
    ASSERT_FALSE(compiled) << pattern;
    EXPECT_NE(compiled.error().message().find("property"), std::string::npos) << pattern;
  }
  for (const char* const pattern : {"\\p{hani}", "\\p{Old_Italic}", "\\p{Any}", "\\P{l}"}) {
    EXPECT_TRUE(RegexMatcher::compile(pattern, "pattern")) << pattern;
  }
}

TEST(RegexMatcher, ReadsIntervalsAsOnigurumaDoes) {
  EXPECT_EQ(split("a{2}?b", "ab"), (Words{"a", "b"}));
  EXPECT_EQ(split("a{2}?b", "aab"), (Words{"aab"}));
  EXPECT_EQ(split("a{,2}b", "aaab"), (Words{"a", "aab"}));
  EXPECT_EQ(split("a{1,2}?", "aaa"), (Words{"a", "a", "a"}));
  EXPECT_EQ(split("a{x}", "a{x}"), (Words{"a{x}"}));
}

TEST(RegexMatcher, TakesAlternativesBehindASwitchForThoseOfItsGroup) {
  const std::string text = "abxcaCaB";
  EXPECT_EQ(split("a(?i)b|c", text), (Words{"ab", "xc", "aC", "aB"}));
  EXPECT_EQ(split("(?:x|a(?i)b|c)", text), (Words{"ab", "x", "c", "aC", "aB"}));
  EXPECT_EQ(split("a|(?i)b|c", text), (Words{"a", "b", "x", "c", "a", "C", "a", "B"}));
  EXPECT_EQ(split("a(?i)b(?-i)c|d", "aBcaBDaBd"), (Words{"aBc", "aBD", "aBd"}));
  constexpr auto kTiktoken = RegexMatcher::Dialect::kTiktoken;
  EXPECT_EQ(split("a(?i)b|c", text, kTiktoken), (Words{"ab", "x", "c", "a", "C", "aB"}));
}

TEST(RegexMatcher, FindsTheEndsOfLines) {
  EXPECT_EQ(split("x$", "x\nx"), (Words{"x", "\n", "x"}));
  EXPECT_EQ(split("^x", "x\nx"), (Words{"x", "\n", "x"}));
  EXPECT_EQ(split("a$\n", "a\nb"), (Words{"a\n", "b"}));
}

TEST(RegexMatcher, ReadsTiktokensPatternsAsTiktokenDoes) {
  constexpr auto kTiktoken = RegexMatcher::Dialect::kTiktoken;
  EXPECT_EQ(split("\\p{N}{1,3}+", "a1234567b", kTiktoken), (Words{"a", "123", "456", "7", "b"}));
  EXPECT_EQ(split("x$", "x\nx", kTiktoken), (Words{"x\n", "x"}));
  EXPECT_EQ(split("x$", "x\n", kTiktoken), (Words{"x\n"}));
}

TEST(RegexMatcher, ReadsBracketsWithinBrackets) {
  struct Case {
    const char* pattern;
    std::string_view text;
    std::optional<RegexMatcher::Match> expected;
  };

  const Case cases[] = {
      {"[a[b-d]]+", "xbadx", {{1, 4}}},
      {"[^(\\s|[.,])]+", "(a b", {{1, 2}}},
      {"[\\p{L}&&[^\\p{Han}]]+", "\u4e2d\u00e9z", {{3, 6}}},
      {"[a-z&&[^aeiou]&&[a-m]]+", "aobcdnz", {{2, 5}}},
      {"[^a&&[ab]]", "ab", {{1, 2}}},
      {"[a&&b]", "ab", std::nullopt},
      {"[a&&b]|c", "abc", {{2, 3}}},
      {"[\\]\\[][[\\x{e9}\\u00ea]]", "]\u00ea", {{0, 3}}},
  };
  for (const Case& one : cases) {
    const auto matcher = RegexMatcher::compile(one.pattern, "pattern");
    ASSERT_TRUE(matcher) << one.pattern << matcher.status().message();
    EXPECT_EQ(*matcher->find(one.text, 0), one.expected) << one.pattern;
  }
}

TEST(RegexMatcher, KnowsClassesAsOnigurumaDoes) {
  // Digits of two scripts and a superscript, which is a character of a word, but not in brackets.
  const std::string text = "a1\u0661\u00b2_ F\u24b6!";
  EXPECT_EQ(split("\\d+", text), (Words{"a", "1\u0661", "\u00b2_ F\u24b6!"}));
  EXPECT_EQ(split("\\D+", text), (Words{"a", "1\u0661", "\u00b2_ F\u24b6!"}));
  EXPECT_EQ(split("[\\d_]+", text), (Words{"a", "1\u0661", "\u00b2", "_", " F\u24b6!"}));
  EXPECT_EQ(split("\\w+", text), (Words{"a1\u0661\u00b2_", " ", "F\u24b6", "!"}));
  EXPECT_EQ(split("[\\w]+", text), (Words{"a1\u0661", "\u00b2", "_", " ", "F\u24b6", "!"}));
  EXPECT_EQ(split("[^\\w]+", text), (Words{"a1\u0661", "\u00b2", "_", " ", "F\u24b6", "!"}));
  EXPECT_EQ(split("\\W+", text), (Words{"a1\u0661\u00b2_", " ", "F\u24b6", "!"}));
  EXPECT_EQ(split("\\h+", text), (Words{"a1", "\u0661\u00b2_ ", "F", "\u24b6!"}));
  EXPECT_EQ(split("[[:alpha:]]+", text), (Words{"a", "1\u0661\u00b2_ ", "F\u24b6", "!"}));
  EXPECT_EQ(split("[[:alnum:]]+", text), (Words{"a1\u0661", "\u00b2_ ", "F\u24b6", "!"}));
  EXPECT_EQ(split("[[:word:]]+", text), (Words{"a1\u0661", "\u00b2", "_", " ", "F\u24b6", "!"}));
  EXPECT_EQ(split("[[:graph:]]+", text), (Words{"a1\u0661\u00b2_", " ", "F\u24b6!"}));
  EXPECT_EQ(split("[[:print:]]+", "a \n"), (Words{"a ", "\n"}));
  EXPECT_EQ(split("\\p{Alphabetic}+", "a\u0345\u16ee1"), (Words{"a\u0345\u16ee", "1"}));
}

TEST(RegexMatcher, FindsTheBordersOfWords) {
  EXPECT_EQ(split("\\bx", "x axx \u00b2x"), (Words{"x", " axx \u00b2x"}));
  EXPECT_EQ(split("x\\b", "xx x"), (Words{"x", "x", " ", "x"}));
  EXPECT_EQ(split("\\Bx\\B", "xxx"), (Words{"x", "x", "x"}));
  EXPECT_EQ(split("\\R", "a\r\nb\u2028c\rd"), (Words{"a", "\r\n", "b", "\u2028", "c", "\r", "d"}));
}

TEST(RegexMatcher, RefusesWhatItWouldReadInAnotherWay) {
  for (const char* const pattern :
       {"\\X", "\\v", "\\N", "\\O", "\\Qa\\E", "\\pL", "(?m:.)", "(?s).", "(?x) a", "(?#a)b",
        "[[:upper:]]", "[\\b]", "[\\R]", "[]a]", "[a&&]", "a{2}*", "a*", "^", "(?=a)"}) {
    EXPECT_EQ(RegexMatcher::compile(pattern, "pattern").status().code(), StatusCode::kUnsupported)
        << pattern;
  }
  EXPECT_TRUE(RegexMatcher::compile("(?i:'s|'t)|(?i)a|(?-i:b)|(?<!c)d", "pattern"));
}

TEST(RegexMatcher, RefusesWhatOnigurumaFoldsToSeveralCharacters) {
  for (const char* const pattern :
       {"(?i)ss",         "(?i)s(?:s)",    "(?i:aST)",        "x|(?i:(?:Fi))",  "(?i)\u00df",
        "(?i)[\u00e4]",   "(?i)s\\x73",    "(?i)\\p{Ll}",     "(?i)[\\p{L}]",   "(?i)[\\S]",
        "(?i)a|(?:b|ff)", "(?i)s{1}s",     "(?i)s{1}{1,1}s",  "(?i)(?:(?:s))s", "(?i)(?:as)s",
        "(?i)(?:\\ns)s",  "(?i)s(?:s[a])", "(?i)s(?:s(a|b))", "(?i)(?>ss)",     "(?i)(?<n>ss)",
        "(?i)(?<!x)ss",   "(?i)(?:s){1}s", "(?i)s{0}ss",      "(?i)(?:ss)+",    "(?i)(?:(?-i)x)ss",
        "(?i)[\\w]",      "(?i)[^\\D]",    "(?i)[\\H]"}) {
    EXPECT_EQ(RegexMatcher::compile(pattern, "pattern").status().code(), StatusCode::kUnsupported)
        << pattern;
  }
  for (const char* const pattern :
       {"ss",
        "(?i:a)ss",
        "(?i)s|s",
        "(?i)sx|[sf]",
        "(?i)s+t",
        "(?i)(?-i)ss",
        "(?:(?i)a)ss",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\s+",
        "'(?i:[sdmt]|ll|ve|re)",
        "(?i:s)x(?i:s)",
        "(?i:s)(?i:s)",
        "(?i:s)s",
        "(?i)s(?i)s",
        "(?i)s(?-i)s",
        "(?i)(s)(s)",
        "(?i)s(?>s)",
        "(?i)(?<first>s)s",
        "(?i)ss+",
        "(?i)s{1}?s",
        "(?i)s(?:s|t)",
        "(?i)(?:a|s)s",
        "(?i)s(?:sa){2}",
        "(?i)s(?:)s",
        "(?i)(?:[a]s)s",
        "(?i)(?:s{2})s",
        "(?i)s$s",
        "(?i)\\ss",
        "(?i)[\\d]",
        "(?i)\\w+",
        "(?i)s\\ws"}) {
    EXPECT_TRUE(RegexMatcher::compile(pattern, "pattern").has_value()) << pattern;
  }
  EXPECT_THAT(RegexMatcher::compile("(?i)as(?:s)", "FILE").status().message(),
              testing::HasSubstr("FILE: ss, which also matches one character, under (?i)"));
  EXPECT_EQ(split("(?i:s)x(?i:s)", "aSxs\u00df"), (Words{"a", "Sxs", "\u00df"}));
  EXPECT_EQ(split("(?i)(s)(s)", "aSs\u00df"), (Words{"a", "Ss", "\u00df"}));
  constexpr auto kTiktoken = RegexMatcher::Dialect::kTiktoken;
  EXPECT_EQ(split("(?i)ss", "SS\u00df", kTiktoken), (Words{"SS", "\u00df"})) << "one for one";
  EXPECT_EQ(split("(?i)k", "a\u212Ab"), (Words{"a", "\u212A", "b"})) << "the Kelvin sign";
  EXPECT_EQ(split("(?i)s", "a\u017Fb"), (Words{"a", "\u017F", "b"})) << "the long s";
}

}  // namespace
}  // namespace meg::tokenizer
