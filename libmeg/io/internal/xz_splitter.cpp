#include <lzma.h>

#include <array>

#include "libmeg/io/internal/frame_splitter.h"
#include "libmeg/io/internal/xz_container.h"
#include "libmeg/io/internal/xz_unpacker.h"

namespace meg::io {
namespace {

/// What a block's filters may ask for, as several are decompressed at once; `xz -9` needs 65 MiB.
constexpr uint64_t kMaxBlockMemory = uint64_t{72} << 20;

const uint8_t* octets(const void* bytes) { return static_cast<const uint8_t*>(bytes); }

/// Unpacks the block that begins `packed`, whose header has been read once.
Status unpack_block(std::span<const char> packed, const Frame& frame, std::span<std::byte> out) {
  std::array<lzma_filter, LZMA_FILTERS_MAX + 1> filters;
  filters[0].id = LZMA_VLI_UNKNOWN;
  lzma_block block{};
  block.version = 1;
  block.check = static_cast<lzma_check>(frame.check);
  block.filters = filters.data();
  block.header_size = lzma_block_header_size_decode(octets(packed.data())[0]);
  lzma_ret code = ::lzma_block_header_decode(&block, nullptr, octets(packed.data()));
  if (code != LZMA_OK) return xz_error(code);
  size_t in = block.header_size;
  size_t used = 0;
  code = ::lzma_block_buffer_decode(&block, nullptr, octets(packed.data()), &in, packed.size(),
                                    reinterpret_cast<uint8_t*>(out.data()), &used, out.size());
  // The decoder of headers has allocated the filters' options.
  ::lzma_filters_free(filters.data(), nullptr);
  const bool is_whole = in == packed.size() && used == out.size();
  if (code == LZMA_OK && !is_whole) code = LZMA_DATA_ERROR;
  return code == LZMA_OK ? Status() : xz_error(code);
}

class XzSplitter : public FrameSplitter {
 public:
  Frame next(std::span<const std::byte> bytes) override {
    const Result<XzContainer::Step> step = container_.next(bytes);
    // Whoever decompresses the rest reports what is wrong.
    if (!step.has_value()) return {};
    if (step->part == XzContainer::Part::kMore) return {.kind = Frame::Kind::kMore};
    if (step->part == XzContainer::Part::kBlock) return next_block(bytes);
    return {.kind = Frame::Kind::kFraming, .packed = step->bytes};
  }

  Result<std::vector<std::byte>> unpack(const std::string& packed,
                                        const std::vector<Frame>& frames) const override {
    size_t size = 0;
    for (const Frame& frame : frames) size += frame.unpacked;
    std::vector<std::byte> content(size);
    size_t from = 0;
    size_t to = 0;
    for (const Frame& frame : frames) {
      if (frame.kind == Frame::Kind::kWhole) {
        MEG_RETURN_IF_ERROR(unpack_block(std::span(packed).subspan(from, frame.packed), frame,
                                         std::span(content).subspan(to, frame.unpacked)));
      }
      from += frame.packed;
      to += frame.unpacked;
    }
    return content;
  }

  Result<std::unique_ptr<Unpacker>> unpack_rest() override {
    return std::unique_ptr<Unpacker>(std::make_unique<XzUnpacker>(std::move(container_)));
  }

 private:
  Frame next_block(std::span<const std::byte> bytes) {
    const Result<lzma_block*> found = container_.read_block(bytes);
    if (!found.has_value()) return {};
    const lzma_block& block = **found;
    const lzma_vli packed = ::lzma_block_total_size(&block);
    const bool says_sizes =
        packed != LZMA_VLI_UNKNOWN && packed != 0 && block.uncompressed_size != LZMA_VLI_UNKNOWN;
    // `xz` writes sizes into the headers of blocks only where it packs by threads (-T); other
    // blocks are decompressed by one thread.
    if (!says_sizes || packed > kMaxFrameBytes || block.uncompressed_size > kMaxFrameBytes ||
        ::lzma_raw_decoder_memusage(block.filters) > kMaxBlockMemory) {
      return {};
    }
    if (bytes.size() < packed) return {.kind = Frame::Kind::kMore};
    const lzma_vli unpadded = ::lzma_block_unpadded_size(&block);
    // Noted before the block is decompressed: the index at the stream's end is compared with what
    // headers say, and unpack_block() compares those with the content.
    if (!container_.end_block(unpadded, block.uncompressed_size).ok()) return {};
    return {.kind = Frame::Kind::kWhole,
            .packed = static_cast<size_t>(packed),
            .unpacked = static_cast<size_t>(block.uncompressed_size),
            .check = block.check};
  }

  XzContainer container_;
};

}  // namespace

std::unique_ptr<FrameSplitter> make_xz_splitter() { return std::make_unique<XzSplitter>(); }

}  // namespace meg::io
