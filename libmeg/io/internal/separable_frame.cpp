#include "libmeg/io/internal/separable_frame.h"

#include <zstd.h>
#include <zstd_errors.h>

namespace meg::io {
namespace {

using Kind = SeparableFrame::Kind;

/// The longest header, which tells the size of the content.
constexpr size_t kZstdHeaderBytes = 18;

SeparableFrame zstd_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kZstdHeaderBytes) return {.kind = Kind::kMore};
  const unsigned long long unpacked = ::ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  // Also where there is none: its constants for that are the largest numbers.
  if (unpacked > kMaxFrameBytes) return {};
  const size_t packed = ::ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
  if (::ZSTD_getErrorCode(packed) == ZSTD_error_srcSize_wrong) return {.kind = Kind::kMore};
  if (::ZSTD_isError(packed) != 0) return {};
  return {.kind = Kind::kWhole, .packed = packed, .unpacked = static_cast<size_t>(unpacked)};
}

/// Bytes of gzip's header, of the length of its extra field, and of its trailer.
constexpr size_t kGzipHeaderBytes = 10;
constexpr size_t kExtraLengthBytes = 2;
constexpr size_t kGzipTrailerBytes = 8;

/// What bgzip allows a member to unpack to.
constexpr uint32_t kMaxBgzipBytes = uint32_t{64} << 10;

uint32_t number_at(std::span<const std::byte> bytes, size_t offset, size_t count) {
  uint32_t number = 0;
  for (size_t i = 0; i < count; ++i) {
    number |= std::to_integer<uint32_t>(bytes[offset + i]) << (8 * i);
  }
  return number;
}

/// The member's size by the subfield `BC` of its extra field; 0 where there is none.
size_t bgzip_size(std::span<const std::byte> extra) {
  constexpr size_t kSubfieldHeader = 4;
  while (extra.size() >= kSubfieldHeader) {
    const size_t length = number_at(extra, 2, 2);
    if (extra.size() - kSubfieldHeader < length) return 0;
    const bool is_size = extra[0] == std::byte{'B'} && extra[1] == std::byte{'C'} && length == 2;
    if (is_size) return number_at(extra, kSubfieldHeader, 2) + size_t{1};
    extra = extra.subspan(kSubfieldHeader + length);
  }
  return 0;
}

SeparableFrame bgzip_member(std::span<const std::byte> bytes) {
  constexpr std::byte kHasExtra{4};
  const size_t begin = kGzipHeaderBytes + kExtraLengthBytes;
  if (bytes.size() < begin) return {.kind = Kind::kMore};
  if (number_at(bytes, 0, 2) != 0x8b1f || (bytes[3] & kHasExtra) == std::byte{0}) return {};
  const size_t length = number_at(bytes, kGzipHeaderBytes, kExtraLengthBytes);
  if (bytes.size() < begin + length) return {.kind = Kind::kMore};
  const size_t packed = bgzip_size(bytes.subspan(begin, length));
  if (packed < begin + length + kGzipTrailerBytes) return {};
  if (bytes.size() < packed) return {.kind = Kind::kMore};
  const uint32_t unpacked = number_at(bytes, packed - 4, 4);
  if (unpacked > kMaxBgzipBytes) return {};
  return {.kind = Kind::kWhole, .packed = packed, .unpacked = unpacked};
}

}  // namespace

SeparableFrame separable_frame(Compression how, std::span<const std::byte> bytes) {
  if (how == Compression::kZstd) return zstd_frame(bytes);
  if (how == Compression::kGzip) return bgzip_member(bytes);
  return {};
}

}  // namespace meg::io
