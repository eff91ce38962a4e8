#pragma once

#include <lzma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "libmeg/base/result.h"

namespace meg::io {

/// kCorruption: no whole .xz file, or kResourceExhausted for LZMA_MEM_ERROR.
Status xz_error(lzma_ret code);

/// What an .xz file has around its blocks: headers, indices and footers of any number of streams,
/// and the zeros between them. The blocks themselves are somebody else's to decompress, here or at
/// once somewhere else; whether they are those that the index names is checked here. Mirrors
/// https://tukaani.org/xz/xz-file-format.txt.
class XzContainer {
 public:
  enum class Part {
    kMore,     ///< More bytes are needed to decide.
    kFraming,  ///< No block.
    kBlock,    ///< A block, whose header is there.
  };

  struct Step {
    Part part = Part::kMore;
    size_t bytes = 0;  ///< kFraming: that are done with.
  };

  /// No header is longer.
  static constexpr size_t kMaxHeaderBytes = LZMA_BLOCK_HEADER_SIZE_MAX;

  /// Classifies the beginning of `bytes`, which follow those already processed. A block is returned
  /// again until it is begun.
  Result<Step> next(std::span<const std::byte> bytes);

  /// Reads the header of the block that begins `bytes`: of its sizes those that it says. Its
  /// filters are owned by the container and go with the next call. kResourceExhausted for filters
  /// that need more than 512 MiB.
  Result<lzma_block*> read_block(std::span<const std::byte> bytes);

  /// A block is done with: the bytes without its padding, and those it decompresses to.
  Status end_block(lzma_vli unpadded, lzma_vli unpacked);

  /// Whether a file may end here.
  bool may_end() const { return state_ == State::kPadding && padding_ % 4 == 0; }

 private:
  enum class State { kHeader, kBlocks, kIndex, kFooter, kPadding };

  Result<Step> read_header(std::span<const std::byte> bytes);
  Result<Step> read_index(std::span<const std::byte> bytes);
  Result<Step> read_footer(std::span<const std::byte> bytes);
  Result<Step> pass_padding(std::span<const std::byte> bytes);

  struct FreeFilters {
    void operator()(lzma_filter* filters) const;
  };

  struct FreeIndexHash {
    void operator()(lzma_index_hash* hash) const { ::lzma_index_hash_end(hash, nullptr); }
  };

  State state_ = State::kHeader;
  size_t padding_ = 0;
  lzma_stream_flags flags_{};
  lzma_block block_{};
  std::unique_ptr<lzma_filter[], FreeFilters> filters_;  // of block_
  std::unique_ptr<lzma_index_hash, FreeIndexHash> blocks_;
};

}  // namespace meg::io
