#include "libmeg/io/internal/xz_container.h"

#include <algorithm>

namespace meg::io {
namespace {

/// What filters may ask for; `xz -9e` needs 65 MiB.
constexpr uint64_t kMaxMemory = uint64_t{512} << 20;

const uint8_t* octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

}  // namespace

Status xz_error(lzma_ret code) {
  if (code == LZMA_MEM_ERROR) return Status(StatusCode::kResourceExhausted, "out of memory");
  return Status(StatusCode::kCorruption, "damaged: not a complete xz stream");
}

void XzContainer::FreeFilters::operator()(lzma_filter* filters) const {
  ::lzma_filters_free(filters, nullptr);
  delete[] filters;
}

Result<XzContainer::Step> XzContainer::next(std::span<const std::byte> bytes) {
  switch (state_) {
    case State::kHeader:
      return read_header(bytes);
    case State::kBlocks:
      if (bytes.empty()) return Step();
      // Where the size of a block's header would stand, an index has a zero.
      if (bytes[0] == std::byte{}) {
        state_ = State::kIndex;
        return read_index(bytes);
      }
      if (bytes.size() < lzma_block_header_size_decode(octets(bytes)[0])) return Step();
      return Step{.part = Part::kBlock};
    case State::kIndex:
      return read_index(bytes);
    case State::kFooter:
      return read_footer(bytes);
    default:
      return pass_padding(bytes);
  }
}

Result<XzContainer::Step> XzContainer::read_header(std::span<const std::byte> bytes) {
  if (bytes.size() < LZMA_STREAM_HEADER_SIZE) return Step();
  const lzma_ret code = ::lzma_stream_header_decode(&flags_, octets(bytes));
  if (code != LZMA_OK) return xz_error(code);
  blocks_.reset(::lzma_index_hash_init(blocks_.release(), nullptr));
  if (blocks_ == nullptr) return xz_error(LZMA_MEM_ERROR);
  state_ = State::kBlocks;
  return Step{.part = Part::kFraming, .bytes = LZMA_STREAM_HEADER_SIZE};
}

Result<lzma_block*> XzContainer::read_block(std::span<const std::byte> bytes) {
  filters_.reset(new lzma_filter[LZMA_FILTERS_MAX + 1]);
  // The mark that ends the list for lzma_filters_free(), should the header not decode.
  filters_[0].id = LZMA_VLI_UNKNOWN;
  block_ = {};
  block_.version = 1;
  block_.check = flags_.check;
  block_.header_size = lzma_block_header_size_decode(octets(bytes)[0]);
  block_.filters = filters_.get();
  const lzma_ret code = ::lzma_block_header_decode(&block_, nullptr, octets(bytes));
  if (code != LZMA_OK) return xz_error(code);
  // Asked before anything is allocated: a header may name a dictionary of up to 4 GiB.
  const uint64_t memory = ::lzma_raw_decoder_memusage(filters_.get());
  if (memory <= kMaxMemory) return &block_;
  return make_error(StatusCode::kResourceExhausted,
                    "its xz stream needs {} MiB, expected at most {}", memory >> 20,
                    kMaxMemory >> 20);
}

Status XzContainer::end_block(lzma_vli unpadded, lzma_vli unpacked) {
  const lzma_ret code = ::lzma_index_hash_append(blocks_.get(), unpadded, unpacked);
  return code == LZMA_OK ? Status() : xz_error(code);
}

Result<XzContainer::Step> XzContainer::read_index(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Step();
  size_t used = 0;
  const lzma_ret code = ::lzma_index_hash_decode(blocks_.get(), octets(bytes), &used, bytes.size());
  if (code != LZMA_OK && code != LZMA_STREAM_END) return xz_error(code);
  if (code == LZMA_STREAM_END) state_ = State::kFooter;
  return Step{.part = Part::kFraming, .bytes = used};
}

Result<XzContainer::Step> XzContainer::read_footer(std::span<const std::byte> bytes) {
  if (bytes.size() < LZMA_STREAM_HEADER_SIZE) return Step();
  lzma_stream_flags footer{};
  lzma_ret code = ::lzma_stream_footer_decode(&footer, octets(bytes));
  if (code == LZMA_OK) code = ::lzma_stream_flags_compare(&flags_, &footer);
  // What liblzma's own decoder of streams compares at this place, too.
  if (code == LZMA_OK && footer.backward_size != ::lzma_index_hash_size(blocks_.get())) {
    code = LZMA_DATA_ERROR;
  }
  if (code != LZMA_OK) return xz_error(code);
  state_ = State::kPadding;
  padding_ = 0;
  return Step{.part = Part::kFraming, .bytes = LZMA_STREAM_HEADER_SIZE};
}

/// Zeros, four at a time, up to the next stream.
Result<XzContainer::Step> XzContainer::pass_padding(std::span<const std::byte> bytes) {
  const auto end =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != std::byte{}; });
  const auto zeros = static_cast<size_t>(end - bytes.begin());
  padding_ += zeros;
  if (zeros == bytes.size()) {
    return Step{.part = zeros == 0 ? Part::kMore : Part::kFraming, .bytes = zeros};
  }
  // Counted over all calls: the zeros may come in several pieces.
  if (padding_ % 4 != 0) return xz_error(LZMA_DATA_ERROR);
  // Otherwise a few bytes of something else would be taken for a stream that was cut short.
  if (*end != std::byte{0xfd}) {
    return Status(StatusCode::kCorruption, "damaged: not an xz stream after the last one");
  }
  state_ = State::kHeader;
  if (zeros == 0) return read_header(bytes);
  return Step{.part = Part::kFraming, .bytes = zeros};
}

}  // namespace meg::io
