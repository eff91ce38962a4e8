#pragma once

#include <lzma.h>

#include <cstddef>
#include <vector>

#include "libmeg/io/internal/unpacker.h"
#include "libmeg/io/internal/xz_container.h"

namespace meg::io {

/// Streams of .xz one after another, block by block.
class XzUnpacker : public Unpacker {
 public:
  XzUnpacker() = default;

  /// Continues where somebody else has read up to a block or around it.
  explicit XzUnpacker(XzContainer container) : container_(std::move(container)) {}

  XzUnpacker(const XzUnpacker&) = delete;
  XzUnpacker& operator=(const XzUnpacker&) = delete;

  ~XzUnpacker() override { ::lzma_end(&stream_); }

  Result<Step> unpack(std::span<const std::byte> in, std::span<std::byte> out) override;

 private:
  Result<size_t> read_framing();
  Result<Step> unpack_block(std::span<const std::byte> in, std::span<std::byte> out);

  XzContainer container_;
  std::vector<std::byte> pending_;  // of a header that is not there yet
  lzma_block* block_ = nullptr;     // container_'s, while it is decompressed
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace meg::io
