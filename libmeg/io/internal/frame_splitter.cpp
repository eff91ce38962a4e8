#include "libmeg/io/internal/frame_splitter.h"

#include <zstd.h>
#include <zstd_errors.h>

namespace meg::io {
namespace {

using Kind = Frame::Kind;

/// The longest header, which has the size of the content.
constexpr size_t kZstdHeaderBytes = 18;

Frame zstd_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kZstdHeaderBytes) return {.kind = Kind::kMore};
  const unsigned long long unpacked = ::ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  // This covers a missing size too: zstd's constants for that are the largest numbers.
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

/// What bgzip allows a member to decompress to.
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
    // The field holds the member's size less 1.
    if (is_size) return number_at(extra, kSubfieldHeader, 2) + size_t{1};
    extra = extra.subspan(kSubfieldHeader + length);
  }
  return 0;
}

Frame bgzip_member(std::span<const std::byte> bytes) {
  constexpr std::byte kHasExtra{4};
  const size_t begin = kGzipHeaderBytes + kExtraLengthBytes;
  if (bytes.size() < begin) return {.kind = Kind::kMore};
  if (number_at(bytes, 0, 2) != 0x8b1f || (bytes[3] & kHasExtra) == std::byte{0}) return {};
  const size_t length = number_at(bytes, kGzipHeaderBytes, kExtraLengthBytes);
  if (bytes.size() < begin + length) return {.kind = Kind::kMore};
  const size_t packed = bgzip_size(bytes.subspan(begin, length));
  // A size that does not even hold the member's own header is no bgzip, and 0 is that of a plain
  // member.
  if (packed < begin + length + kGzipTrailerBytes) return {};
  if (bytes.size() < packed) return {.kind = Kind::kMore};
  // gzip's last field: the size modulo 2^32, which is the size where members are small.
  const uint32_t unpacked = number_at(bytes, packed - 4, 4);
  if (unpacked > kMaxBgzipBytes) return {};
  return {.kind = Kind::kWhole, .packed = packed, .unpacked = unpacked};
}

Status damaged() { return Status(StatusCode::kCorruption, "damaged: a frame's size is wrong"); }

/// Frames that are files of their format by themselves.
class WholeFrameSplitter : public FrameSplitter {
 public:
  explicit WholeFrameSplitter(Compression how) : how_(how) {}

  Frame next(std::span<const std::byte> bytes) override {
    return how_ == Compression::kZstd ? zstd_frame(bytes) : bgzip_member(bytes);
  }

  Result<std::vector<std::byte>> unpack(const std::string& packed,
                                        const std::vector<Frame>& frames) const override {
    size_t size = 0;
    for (const Frame& frame : frames) size += frame.unpacked;
    MEG_ASSIGN_OR_RETURN(const std::unique_ptr<Unpacker> unpacker, make_unpacker(how_));
    std::vector<std::byte> block(size);
    // The sizes in headers are claims. Unpackers get exactly that much room, and then one byte
    // more: what comes there is more than the frames said.
    std::byte beyond{};
    std::span<const std::byte> in = std::as_bytes(std::span(packed));
    size_t used = 0;
    for (bool was_idle = false;;) {
      const bool is_full = used == size;
      const std::span<std::byte> out =
          is_full ? std::span(&beyond, 1) : std::span(block).subspan(used);
      MEG_ASSIGN_OR_RETURN(const Unpacker::Step step, unpacker->unpack(in, out));
      if (is_full && step.produced > 0) return damaged();
      in = in.subspan(step.consumed);
      used += step.produced;
      if (in.empty() && step.at_end && step.produced == 0) break;
      // One step that does nothing may come before an end; two in a row would continue forever.
      const bool is_idle = step.consumed == 0 && step.produced == 0;
      if (is_idle && was_idle) return damaged();
      was_idle = is_idle;
    }
    if (used < size) return damaged();
    return block;
  }

  Result<std::unique_ptr<Unpacker>> unpack_rest() override { return make_unpacker(how_); }

 private:
  Compression how_;
};

}  // namespace

std::unique_ptr<FrameSplitter> make_frame_splitter(Compression how) {
  if (how == Compression::kXz) return make_xz_splitter();
  return std::make_unique<WholeFrameSplitter>(how);
}

}  // namespace meg::io
