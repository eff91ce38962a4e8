#include "libmeg/io/internal/gzip_unpacker.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "libmeg/io/crc32.h"

namespace meg::io {
namespace {

constexpr uint8_t kHasChecksum = 2, kHasExtra = 4, kHasName = 8, kHasComment = 16, kReserved = 0xe0;

Status damaged(std::string_view what) {
  return make_error(StatusCode::kCorruption, "damaged: {}", what);
}

std::string_view reason(int code) {
  switch (code) {
    case ISAL_INCORRECT_CHECKSUM:
      return "the content does not match its checksum";
    case ISAL_INVALID_LOOKBACK:
      return "a distance before the beginning of the data";
    default:
      return "not deflate data";
  }
}

uint32_t clamp(size_t bytes) {
  return static_cast<uint32_t>(std::min<size_t>(bytes, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

Result<Unpacker::Step> GzipUnpacker::unpack(std::span<const std::byte> in,
                                            std::span<std::byte> out) {
  if (part_ == Part::kPadding) return skip_padding(in);
  return part_ == Part::kData ? inflate(in, out) : read_header(in);
}

/// A member may be followed by zeros, which pad tapes, by another member or by the end.
Result<Unpacker::Step> GzipUnpacker::skip_padding(std::span<const std::byte> in) {
  const auto zeros =
      std::find_if(in.begin(), in.end(), [](std::byte b) { return b != std::byte{}; });
  const auto count = static_cast<size_t>(zeros - in.begin());
  if (count < in.size()) {
    if (in[count] != std::byte{0x1f}) return damaged("not a gzip member after the last one");
    header_crc_ = 0;
    part_ = Part::kFixed;
  }
  return Step{.consumed = count, .at_end = part_ == Part::kPadding};
}

Result<Unpacker::Step> GzipUnpacker::read_header(std::span<const std::byte> in) {
  size_t consumed = 0;
  while (part_ != Part::kData && consumed < in.size()) {
    const std::span<const std::byte> rest = in.subspan(consumed);
    size_t count = 0;
    bool is_done = false;
    switch (part_) {
      case Part::kExtra:
        count = std::min(extra_left_, rest.size());
        extra_left_ -= count;
        is_done = extra_left_ == 0;
        break;
      case Part::kName:
      case Part::kComment: {
        const auto zero = std::find(rest.begin(), rest.end(), std::byte{});
        is_done = zero != rest.end();
        count = static_cast<size_t>(zero - rest.begin()) + (is_done ? 1 : 0);
        break;
      }
      default:
        field_[field_size_++] = std::to_integer<uint8_t>(rest.front());
        count = 1;
        is_done = field_size_ == (part_ == Part::kFixed ? field_.size() : 2);
        break;
    }
    if (part_ != Part::kChecksum) header_crc_ = crc32(rest.first(count), header_crc_);
    consumed += count;
    if (is_done) MEG_RETURN_IF_ERROR(end_part());
  }
  return Step{.consumed = consumed};
}

/// Checks the part that has been read and moves on to the next one that the member has.
Status GzipUnpacker::end_part() {
  const auto number = static_cast<uint16_t>(field_[0] | field_[1] << 8);
  field_size_ = 0;
  if (part_ == Part::kFixed) {
    if (field_[1] != 0x8b) return damaged("not a gzip member after the last one");
    if (field_[2] != 8) return damaged("not compressed by deflate");
    flags_ = field_[3];
    if ((flags_ & kReserved) != 0) return damaged("unknown flags in a gzip header");
  }
  if (part_ == Part::kExtraLength) extra_left_ = number;
  if (part_ == Part::kChecksum && number != (header_crc_ & 0xffff)) {
    return damaged("a gzip header does not match its checksum");
  }

  const auto has = [this](Part part) {
    switch (part) {
      case Part::kExtraLength:
        return (flags_ & kHasExtra) != 0;
      case Part::kExtra:
        return extra_left_ > 0;
      case Part::kName:
        return (flags_ & kHasName) != 0;
      case Part::kComment:
        return (flags_ & kHasComment) != 0;
      case Part::kChecksum:
        return (flags_ & kHasChecksum) != 0;
      default:
        return true;
    }
  };
  do {
    part_ = static_cast<Part>(static_cast<uint8_t>(part_) + 1);
  } while (!has(part_));
  if (part_ == Part::kData) {
    ::isal_inflate_init(state_.get());
    // The header is done; the checksum and the length that follow the data are ISA-L's to compare.
    state_->crc_flag = ISAL_GZIP_NO_HDR_VER;
  }
  return Status();
}

Result<Unpacker::Step> GzipUnpacker::inflate(std::span<const std::byte> in,
                                             std::span<std::byte> out) {
  // ISA-L does not write to what it reads.
  state_->next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(in.data()));
  state_->avail_in = clamp(in.size());
  state_->next_out = reinterpret_cast<uint8_t*>(out.data());
  state_->avail_out = clamp(out.size());
  const int code = ::isal_inflate(state_.get());
  if (code < 0) return damaged(reason(code));
  if (state_->block_state == ISAL_BLOCK_FINISH) part_ = Part::kPadding;
  return Step{.consumed = clamp(in.size()) - state_->avail_in,
              .produced = clamp(out.size()) - state_->avail_out,
              .at_end = part_ == Part::kPadding};
}

}  // namespace meg::io
