#include "libmeg/io/internal/xz_unpacker.h"

#include <algorithm>

namespace meg::io {

Result<Unpacker::Step> XzUnpacker::unpack(std::span<const std::byte> in, std::span<std::byte> out) {
  if (block_ != nullptr) return unpack_block(in, out);
  // Framing is collected apart because liblzma reads a header only as a whole, and a step may bring
  // a single byte. What is taken too much is not counted as consumed.
  const size_t before = pending_.size();
  const size_t taken = std::min(in.size(), XzContainer::kMaxHeaderBytes - before);
  pending_.insert(pending_.end(), in.begin(), in.begin() + static_cast<std::ptrdiff_t>(taken));
  MEG_ASSIGN_OR_RETURN(const size_t used, read_framing());
  // All bytes of a header that is not complete yet are kept.
  if (used > 0) pending_.clear();
  return Step{.consumed = used > 0 ? used - before : taken,
              .at_end = pending_.empty() && container_.may_end()};
}

/// Bytes of pending_ that are done with; 0 where more must come.
Result<size_t> XzUnpacker::read_framing() {
  MEG_ASSIGN_OR_RETURN(const XzContainer::Step step, container_.next(pending_));
  if (step.part != XzContainer::Part::kBlock) return step.bytes;
  MEG_ASSIGN_OR_RETURN(block_, container_.read_block(pending_));
  const lzma_ret code = ::lzma_block_decoder(&stream_, block_);
  if (code != LZMA_OK) return xz_error(code);
  return size_t{block_->header_size};
}

Result<Unpacker::Step> XzUnpacker::unpack_block(std::span<const std::byte> in,
                                                std::span<std::byte> out) {
  stream_.next_in = reinterpret_cast<const uint8_t*>(in.data());
  stream_.avail_in = in.size();
  stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream_.avail_out = out.size();
  const lzma_ret code = ::lzma_code(&stream_, LZMA_RUN);
  // LZMA_BUF_ERROR only says that this step could do nothing; whether more input comes is the
  // caller's to know.
  if (code != LZMA_OK && code != LZMA_BUF_ERROR && code != LZMA_STREAM_END) return xz_error(code);
  if (code == LZMA_STREAM_END) {
    MEG_RETURN_IF_ERROR(
        container_.end_block(::lzma_block_unpadded_size(block_), block_->uncompressed_size));
    block_ = nullptr;
  }
  return Step{.consumed = in.size() - stream_.avail_in, .produced = out.size() - stream_.avail_out};
}

}  // namespace meg::io
