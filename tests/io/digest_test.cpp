#include "libmeg/io/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace meg::io {
namespace {

std::string digest_of(const std::string& text, size_t piece) {
  Digest digest;
  for (size_t at = 0; at < text.size(); at += piece) {
    digest.add(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
  }
  return digest.hex();
}

TEST(Digest, IsXxh3Of128Bits) {
  EXPECT_EQ(digest_of("", 1), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 31 + i / 7);
  for (const size_t piece : {1, 13, 256, 4096})
    EXPECT_EQ(digest_of(text, piece), digest_of(text, 5000));
}

TEST(Digest, ContinuesAfterItWasReadAndMoved) {
  const std::string text = "half and half";
  Digest first;
  first.add(std::as_bytes(std::span(text).first(5)));
  EXPECT_EQ(first.hex(), digest_of(text.substr(0, 5), 5));
  Digest second = std::move(first);
  second.add(std::as_bytes(std::span(text).subspan(5)));
  EXPECT_EQ(second.hex(), digest_of(text, 100));
}

}  // namespace
}  // namespace meg::io
