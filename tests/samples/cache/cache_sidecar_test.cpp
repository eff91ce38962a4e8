#include "libmeg/samples/cache/internal/cache_sidecar.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

CacheSidecar some_sidecar() {
  const auto digest = [](char digit) { return std::string(32, digit); };
  return {.idx = {.size = 1580042, .mtime_ns = 1'763'744'400'123'456'789, .xxh3 = digest('a')},
          .sequences = {.begin = 3, .end = 74971},
          .lengths = {.tokens = 91'000'000'000, .longest = 9001, .xxh3 = digest('b')},
          .extra_token = true,
          .drop_last_partial = false,
          .indices = {.document_index = digest('1'),
                      .sample_index = digest('2'),
                      .shuffle_index = digest('3')}};
}

TEST(CacheSidecar, ReadsWhatItWrites) {
  for (const int64_t number : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()}) {
    CacheSidecar sidecar = some_sidecar();
    sidecar.idx.mtime_ns = number;
    sidecar.lengths.tokens = number;
    const std::string text = sidecar_text(sidecar);
    const auto parsed = parse_sidecar(text, "a.json");
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
    EXPECT_EQ(sidecar_text(*parsed), text);
    EXPECT_EQ(parsed->lengths.tokens, number);
    EXPECT_FALSE(parsed->drop_last_partial);
  }
}

TEST(CacheSidecar, EveryBitCounts) {
  const std::string text = sidecar_text(some_sidecar());
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(parse_sidecar(damaged, "a.json").has_value()) << damaged;
  }
}

TEST(CacheSidecar, EveryShorterTextIsRefused) {
  const std::string text = sidecar_text(some_sidecar());
  // The last two characters are the closing brace and the line's end.
  for (size_t size = 0; size < text.size() - 1; ++size) {
    const auto parsed = parse_sidecar(text.substr(0, size), "a.json");
    ASSERT_FALSE(parsed.has_value()) << size;
    EXPECT_TRUE(parsed.error().message().starts_with("a.json: ")) << parsed.error().message();
    EXPECT_EQ(parsed.error().message().find('\n'), std::string::npos);
  }
}

TEST(CacheSidecar, OtherLayoutsOfTheSameValuesAreTaken) {
  std::string text = sidecar_text(some_sidecar());
  std::erase(text, ' ');
  std::erase(text, '\n');
  EXPECT_TRUE(parse_sidecar(text, "a.json").has_value());
  text.insert(1, "\"later\":[1,2],");
  EXPECT_TRUE(parse_sidecar(text, "a.json").has_value()) << "a field that is not known yet";
}

TEST(CacheSidecar, OtherTypesAndMissingFieldsAreRefused) {
  const std::string text = sidecar_text(some_sidecar());
  for (const auto& [from, to] :
       {std::pair("1580042", "\"1580042\""), std::pair("1580042", "1.5"),
        std::pair("1580042", "158004200000000000000"), std::pair("true", "1"),
        std::pair("\"begin\": 3, ", ""), std::pair("\"schema\": 1,", ""),
        std::pair("\"idx\"", "\"sdx\"")}) {
    std::string changed = text;
    changed.replace(changed.find(from), std::string(from).size(), to);
    EXPECT_FALSE(parse_sidecar(changed, "a.json").has_value()) << changed;
  }
  for (const char* other : {"null", "[]", "{}", "1", "\"text\"", "", " "}) {
    EXPECT_FALSE(parse_sidecar(other, "a.json").has_value()) << other;
  }
}

TEST(CacheSidecar, LongFilesAreNotReadWhole) {
  const test::TempFolder folder;
  test::write_file(folder.path("a.json"), sidecar_text(some_sidecar()) + std::string(1 << 20, ' '));
  EXPECT_FALSE(read_sidecar(folder.path("a.json")).has_value());
  EXPECT_EQ(read_sidecar(folder.path("none.json")).error().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace meg::samples
