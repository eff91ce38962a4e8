#pragma once

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace meg::test {

inline std::string gzip_of(std::string_view text) {
  z_stream stream{};
  ::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(::deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

inline std::string zstd_of(std::string_view text) {
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

inline std::string xz_of(std::string_view text) {
  std::string packed(::lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  ::lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr,
                            reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                            reinterpret_cast<uint8_t*>(packed.data()), &size, packed.size());
  packed.resize(size);
  return packed;
}

/// Packs as bgzip does: members of at most 64 KiB that say their sizes, an empty one at the end.
inline std::string bgzip_of(std::string_view text) {
  constexpr size_t kMemberBytes = 0xff00;
  std::string packed;
  while (true) {
    const std::string_view part = text.substr(0, kMemberBytes);
    text.remove_prefix(part.size());
    std::string member = gzip_of(part);
    member[3] = 4;  // FEXTRA
    member.insert(10, std::string("\x06\0BC\x02\0\0\0", 8));
    const size_t size = member.size() - 1;
    member[16] = static_cast<char>(size & 0xff);
    member[17] = static_cast<char>(size >> 8);
    packed += member;
    if (part.empty()) return packed;
  }
}

/// Packs as `xz -T2` does: blocks of 1 MiB that say their sizes, by `filters` (null: LZMA2 alone).
inline std::string xz_blocks_of(std::string_view text, const lzma_filter* filters,
                                lzma_check check) {
  lzma_mt options{};
  options.threads = 1;
  options.block_size = uint64_t{1} << 20;
  options.preset = 0;
  options.filters = filters;
  options.check = check;
  lzma_stream stream = LZMA_STREAM_INIT;
  if (::lzma_stream_encoder_mt(&stream, &options) != LZMA_OK) return "no encoder";
  std::string packed(::lzma_stream_buffer_bound(text.size()) + (text.size() >> 10) + 1024, '\0');
  stream.next_in = reinterpret_cast<const uint8_t*>(text.data());
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<uint8_t*>(packed.data());
  stream.avail_out = packed.size();
  while (::lzma_code(&stream, LZMA_FINISH) == LZMA_OK) {
  }
  packed.resize(stream.total_out);
  ::lzma_end(&stream);
  return packed;
}

inline std::string xz_blocks_of(std::string_view text) {
  return xz_blocks_of(text, nullptr, LZMA_CHECK_CRC64);
}

/// The three formats.
inline constexpr std::string (*kCompressors[])(std::string_view) = {gzip_of, zstd_of, xz_of};

}  // namespace meg::test
