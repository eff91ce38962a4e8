#include "libmeg/io/byte_stream.h"

#include <gmock/gmock.h>
#include <zdict.h>

#include "tests/io/compressed.h"
#include "tests/temp_folder.h"

namespace meg::io {
namespace {

using test::kCompressors;
using testing::HasSubstr;

/// Reads the file to its end, `block` bytes at a time.
Result<std::string> content_of(const std::string& path, size_t block,
                               const StreamOptions& options = {}) {
  MEG_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::open_for_reading(path));
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream,
                       content_stream(file_stream(file, options), path, options));
  std::string content;
  std::string buffer(block, '\0');
  while (true) {
    MEG_ASSIGN_OR_RETURN(const size_t got, stream->read(std::as_writable_bytes(std::span(buffer))));
    if (got == 0) return content;
    content.append(buffer, 0, got);
  }
}

Result<std::string> unpacked(const std::string& packed, size_t block = 1000,
                             const StreamOptions& options = {}) {
  const test::TempFolder folder;
  test::write_file(folder.path("packed"), packed);
  return content_of(folder.path("packed"), block, options);
}

std::string some_text(size_t size) {
  std::string text;
  for (uint32_t state = 1; text.size() < size; state = state * 1664525 + 1013904223) {
    text += std::to_string(state >> 12) + '\n';
  }
  text.resize(size);
  return text;
}

TEST(ByteStream, GivesPlainFilesAsTheyAre) {
  for (const std::string text : {"", "a", "\x1f", "\x28\xb5", "names decide nothing"}) {
    EXPECT_EQ(unpacked(text).value(), text);
  }
}

TEST(ByteStream, UnpacksTextsOfAnySize) {
  for (const size_t size : {0, 1, 999, 1 << 20, (3 << 20) + 7}) {
    const std::string text = some_text(size);
    for (const auto compress : kCompressors) {
      EXPECT_TRUE(unpacked(compress(text), size < 1000 ? 3 : 70'000).value() == text) << size;
    }
  }
}

TEST(ByteStream, UnpacksSeveralMembersAsOne) {
  for (const auto compress : kCompressors) {
    EXPECT_EQ(unpacked(compress("one ") + compress("") + compress("two")).value(), "one two");
  }
  const std::string tape(1000, '\0');
  EXPECT_EQ(unpacked(test::gzip_of("a") + tape + test::gzip_of("b") + tape).value(), "ab");
}

TEST(ByteStream, RefusesDataThatEndInTheMiddle) {
  const std::string text = some_text(2000);
  for (const auto compress : kCompressors) {
    const std::string packed = compress(text);
    for (size_t size = kCompressionMagicBytes; size < packed.size(); size += 1 + size / 50) {
      const auto content = unpacked(packed.substr(0, size));
      ASSERT_FALSE(content.has_value()) << size;
      EXPECT_EQ(content.error().code(), StatusCode::kCorruption);
      EXPECT_THAT(content.error().message(),
                  HasSubstr("packed: the compressed data ends in the middle"));
    }
  }
}

TEST(ByteStream, RefusesDamageAndWhatFollowsTheLastMember) {
  const std::string text = some_text(20'000);
  for (const auto compress : kCompressors) {
    std::string packed = compress(text);
    EXPECT_THAT(unpacked(packed + std::string(40, 'g')).error().message(),
                HasSubstr("packed: damaged: "));
    packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
    const auto content = unpacked(packed);
    EXPECT_TRUE(!content.has_value() || *content == text || compress == test::zstd_of)
        << "zstd has no checksum here";
  }
}

TEST(ByteStream, RefusesABomb) {
  const std::string text(size_t{80} << 20, 'x');
  for (const auto compress : {test::gzip_of, test::zstd_of}) {
    const auto content = unpacked(compress(text), 1 << 20, {.max_compression_ratio = 100});
    ASSERT_FALSE(content.has_value());
    EXPECT_EQ(content.error().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(content.error().message(), HasSubstr("expected at most 100 per byte"));
  }
  EXPECT_EQ(unpacked(test::gzip_of(text), 1 << 20)->size(), text.size()) << "gzip's best is fine";
}

/// Frames of all kinds: some say their sizes, some do not, some are large, empty or skipped.
std::string mixed_frames(const std::string& text, std::string (*compress)(std::string_view)) {
  std::string packed;
  size_t at = 0;
  for (const size_t size : {3'000'000, 0, 2'000'000, 70'000, 9'000'000, 1, 4'000'000}) {
    packed += compress(std::string_view(text).substr(at, size));
    at += size;
    if (compress == test::zstd_of) packed += std::string("\x50\x2a\x4d\x18\3\0\0\0abc", 11);
  }
  return packed + compress(std::string_view(text).substr(at));
}

constexpr std::string (*kSeparable[])(std::string_view) = {
    test::bgzip_of, test::zstd_of, test::gzip_of, test::xz_of,
    [](std::string_view text) { return test::xz_blocks_of(text); }};

TEST(ByteStream, ThreadsChangeNothing) {
  const std::string text = some_text(20 << 20);
  for (const auto compress : kSeparable) {
    const std::string packed = mixed_frames(text, compress);
    for (const int threads : {1, 4}) {
      EXPECT_TRUE(unpacked(packed, 100'000, {.threads = threads}).value() == text) << threads;
    }
  }
  const std::string tape(1000, '\0');
  EXPECT_EQ(
      unpacked(test::bgzip_of("a") + tape + test::gzip_of("b") + tape, 10, {.threads = 2}).value(),
      "ab");
}

TEST(ByteStream, ThreadsDoNotChangeTheErrors) {
  const std::string text = some_text(2 << 20);
  for (const auto compress : kSeparable) {
    const std::string packed = compress(text) + compress(text);
    for (const size_t size : {packed.size() - 1, packed.size() / 2 + 5, size_t{30}, size_t{9}}) {
      const auto cut = packed.substr(0, size);
      EXPECT_EQ(unpacked(cut, 10'000, {.threads = 4}).status().message().substr(20),
                unpacked(cut, 10'000, {.threads = 1}).status().message().substr(20));
    }
    EXPECT_THAT(unpacked(packed + std::string(40, 'g'), 10'000, {.threads = 4}).status().message(),
                HasSubstr("packed: damaged: "));
    for (size_t at = 0; at < packed.size(); at += packed.size() / 9) {
      std::string damaged = packed;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
      const auto alone = unpacked(damaged, 100'000, {.threads = 1});
      const auto together = unpacked(damaged, 100'000, {.threads = 4});
      ASSERT_EQ(alone.has_value(), together.has_value()) << at;
      EXPECT_TRUE(!alone.has_value() || *alone == *together) << at;
    }
  }
}

TEST(ByteStream, UnpacksXzOfAnyFiltersAndChecks) {
  lzma_options_lzma lzma{};
  ::lzma_lzma_preset(&lzma, 1);
  lzma_options_delta delta{};
  delta.type = LZMA_DELTA_TYPE_BYTE;
  delta.dist = 3;
  const std::vector<std::vector<lzma_filter>> chains = {
      {{LZMA_FILTER_LZMA2, &lzma}, {LZMA_VLI_UNKNOWN, nullptr}},
      {{LZMA_FILTER_X86, nullptr}, {LZMA_FILTER_LZMA2, &lzma}, {LZMA_VLI_UNKNOWN, nullptr}},
      {{LZMA_FILTER_DELTA, &delta},
       {LZMA_FILTER_ARM, nullptr},
       {LZMA_FILTER_LZMA2, &lzma},
       {LZMA_VLI_UNKNOWN, nullptr}}};
  const std::string text = some_text(5 << 19);
  const std::string zeros(8, '\0');
  const auto is_unpacked = [&](const std::vector<lzma_filter>& chain, lzma_check check) {
    const std::string one = test::xz_blocks_of(text, chain.data(), check);
    const std::string packed = one + zeros + test::xz_of("between") + one + zeros;
    for (const int threads : {1, 4}) {
      EXPECT_TRUE(unpacked(packed, 70'000, {.threads = threads}).value() ==
                  text + "between" + text);
    }
  };
  for (const auto& chain : chains) is_unpacked(chain, LZMA_CHECK_CRC64);
  for (const auto check : {LZMA_CHECK_NONE, LZMA_CHECK_CRC32, LZMA_CHECK_SHA256}) {
    is_unpacked(chains[0], check);
  }
}

TEST(ByteStream, PassesOverWhatZstdSkips) {
  const std::string packed = test::zstd_of("a text");
  for (const char kind : {'\x50', '\x5f'}) {
    const std::string skipped = kind + std::string("\x2a\x4d\x18\3\0\0\0abc", 10);
    EXPECT_EQ(unpacked(skipped + packed + skipped + packed).value(), "a texta text");
    EXPECT_EQ(unpacked(skipped).value(), "");
    EXPECT_FALSE(unpacked(packed + skipped.substr(0, 9)).has_value());
  }
}

TEST(ByteStream, NamesTheDictionaryThatZstdWants) {
  std::string samples;
  std::vector<size_t> sizes;
  for (int i = 0; i < 1000; ++i) {
    const std::string sample = fmt::format("sample {} of words that come again {}", i, i * i);
    samples += sample;
    sizes.push_back(sample.size());
  }
  std::string dictionary(4096, '\0');
  dictionary.resize(::ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), samples.data(),
                                            sizes.data(), static_cast<unsigned>(sizes.size())));
  std::string packed(::ZSTD_compressBound(100), '\0');
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  packed.resize(::ZSTD_compress_usingDict(context, packed.data(), packed.size(), samples.data(),
                                          100, dictionary.data(), dictionary.size(), 3));
  ::ZSTD_freeCCtx(context);
  EXPECT_THAT(unpacked(packed).error().message(),
              HasSubstr("packed: compressed with a dictionary"));
}

TEST(ByteStream, RefusesXzWhoseIndexNamesOtherBlocks) {
  const std::string text = some_text(3 << 20);
  const std::string whole = test::xz_blocks_of(text);
  const std::string shorter = test::xz_blocks_of(text.substr(0, 2 << 20));
  // The blocks of one and the index of the other.
  const std::string index = whole.substr(whole.size() - 36);
  const std::string odd_padding = whole + std::string(3, '\0');
  for (const std::string& packed :
       {shorter.substr(0, shorter.size() - 32) + index, odd_padding, odd_padding + whole}) {
    for (const int threads : {1, 4}) {
      const auto content = unpacked(packed, 70'000, {.threads = threads});
      ASSERT_FALSE(content.has_value());
      EXPECT_EQ(content.error().code(), StatusCode::kCorruption);
    }
  }
}

TEST(ByteStream, RefusesAFrameWithAWrongSize) {
  const std::string text(100'000, 'x');
  std::string packed = test::zstd_of(text);
  packed[5] = static_cast<char>(packed[5] - 1);
  const auto content = unpacked(packed + packed, 1000, {.threads = 2});
  ASSERT_FALSE(content.has_value());
  EXPECT_EQ(content.error().code(), StatusCode::kCorruption);
}

TEST(ByteStream, RefusesABombOfManyFrames) {
  std::string packed;
  for (int i = 0; i < 40; ++i) packed += test::zstd_of(std::string(size_t{4} << 20, 'x'));
  const auto content = unpacked(packed, 1 << 20, {.max_compression_ratio = 100, .threads = 4});
  ASSERT_FALSE(content.has_value());
  EXPECT_EQ(content.error().code(), StatusCode::kResourceExhausted);
}

TEST(ByteStream, EndsItsThreadWhenNobodyReadsOn) {
  const test::TempFolder folder;
  test::write_file(folder.path("packed"), test::zstd_of(some_text(20 << 20)));
  const FileDescriptor file = FileDescriptor::open_for_reading(folder.path("packed")).value();
  auto stream = content_stream(file_stream(file, {}), file.path(), {}).value();
  std::byte first{};
  EXPECT_EQ(stream->read({&first, 1}).value(), 1U);
}

}  // namespace
}  // namespace meg::io
