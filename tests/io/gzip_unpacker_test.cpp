#include "libmeg/io/internal/gzip_unpacker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "libmeg/io/crc32.h"
#include "tests/io/compressed.h"

namespace meg::io {
namespace {

using ::testing::HasSubstr;

constexpr uint8_t kChecksum = 2, kExtra = 4, kName = 8, kComment = 16;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// What the members of `packed` decompress to if it arrives in pieces of `piece` bytes and leaves
/// in pieces of at most `room`.
Result<std::string> unpack_in_pieces(std::string_view packed, size_t piece, size_t room = 1000) {
  GzipUnpacker unpacker;
  std::string text;
  std::string out(room, '\0');
  bool at_end = false;
  for (size_t begin = 0; begin < packed.size(); begin += piece) {
    std::string_view rest = packed.substr(begin, piece);
    while (true) {
      MEG_ASSIGN_OR_RETURN(const Unpacker::Step step,
                           unpacker.unpack(bytes_of(rest), std::as_writable_bytes(std::span(out))));
      rest.remove_prefix(step.consumed);
      text.append(out, 0, step.produced);
      at_end = step.at_end;
      if (rest.empty() && step.produced == 0) break;
    }
  }
  if (!at_end) return Status(StatusCode::kCorruption, "ends in the middle");
  return text;
}

/// A member of `text` whose header has the parts of these flags.
std::string member_with(uint8_t flags, std::string_view text) {
  const std::string member = test::gzip_of(text);
  std::string header = member.substr(0, 10);
  header[3] = static_cast<char>(flags);
  if ((flags & kExtra) != 0)
    header += std::string(
        "\x05\x00"
        "ab\x00"
        "cd",
        7);
  if ((flags & kName) != 0) header += std::string("corpus.json\0", 12);
  if ((flags & kComment) != 0) header += std::string("\0", 1);
  if ((flags & kChecksum) != 0) {
    const uint32_t crc = crc32(bytes_of(header));
    header += static_cast<char>(crc & 0xff);
    header += static_cast<char>(crc >> 8 & 0xff);
  }
  return header + member.substr(10);
}

TEST(GzipUnpacker, ReadsEveryHeaderInPiecesOfAnySize) {
  for (uint8_t flags = 0; flags < 32; ++flags) {
    const std::string packed = member_with(flags, "one ") + member_with(flags, "two");
    for (const size_t piece : {1, 2, 3, 10, 1000}) {
      const auto text = unpack_in_pieces(packed, piece);
      ASSERT_TRUE(text.has_value()) << int{flags} << " " << piece << text.error().message();
      EXPECT_EQ(*text, "one two") << int{flags} << " " << piece;
    }
  }
}

TEST(GzipUnpacker, UnpacksInPiecesOfAnySize) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919 % 10'007) + ' ';
  const std::string packed = test::gzip_of(text);
  for (const size_t piece : {1, 7, 4096}) {
    for (const size_t room : {1, 50, 100'000}) {
      EXPECT_TRUE(unpack_in_pieces(packed, piece, room).value() == text) << piece << " " << room;
    }
  }
}

TEST(GzipUnpacker, RefusesDamagedHeaders) {
  struct Case {
    size_t byte;
    uint8_t value;
    std::string_view message;
  };

  constexpr std::array kCases = {
      Case{0, 0x1e, "not a gzip member"},
      Case{1, 0x8c, "not a gzip member"},
      Case{2, 9, "not compressed by deflate"},
      Case{3, 0x20 | kChecksum, "unknown flags"},
      Case{4, 1, "a gzip header does not match its checksum"},  // The time.
  };
  for (const Case& damage : kCases) {
    std::string packed = member_with(kChecksum, "text");
    packed[damage.byte] = static_cast<char>(damage.value);
    const auto text = unpack_in_pieces(packed, 3);
    ASSERT_FALSE(text.has_value()) << damage.message;
    EXPECT_EQ(text.error().code(), StatusCode::kCorruption);
    EXPECT_THAT(text.error().message(), HasSubstr(damage.message));
  }
}

TEST(GzipUnpacker, RefusesAWrongChecksumAndAWrongLength) {
  const std::string whole = test::gzip_of("some text");
  for (size_t from_end = 1; from_end <= 8; ++from_end) {
    std::string packed = whole;
    packed[packed.size() - from_end] ^= 1;
    const auto text = unpack_in_pieces(packed, 5);
    ASSERT_FALSE(text.has_value()) << from_end;
    EXPECT_THAT(text.error().message(), HasSubstr("does not match its checksum"));
  }
}

TEST(GzipUnpacker, TellsAMemberThatIsCutFromAWholeOne) {
  const std::string whole = member_with(kChecksum | kExtra | kName | kComment, "some text");
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_FALSE(unpack_in_pieces(whole.substr(0, size), 4).has_value()) << size;
  }
  EXPECT_EQ(unpack_in_pieces(whole + std::string(500, '\0'), 4).value(), "some text");
}

}  // namespace
}  // namespace meg::io
