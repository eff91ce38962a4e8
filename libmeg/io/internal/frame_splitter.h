#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/byte_stream.h"
#include "libmeg/io/internal/unpacker.h"

namespace meg::io {

/// The beginning of compressed bytes, classified by whether it can be decompressed on its own.
struct Frame {
  enum class Kind {
    kNone,     ///< Its end is only known after decompression, or it is large.
    kWhole,    ///< It is there.
    kFraming,  ///< Bytes between frames, already checked, which decompress to nothing.
    kMore,     ///< More bytes are needed to decide.
  };

  Kind kind = Kind::kNone;
  size_t packed = 0;    ///< bytes
  size_t unpacked = 0;  ///< bytes, as it says; at most kMaxFrameBytes
  int check = 0;        ///< xz: the stream's kind of checksum
};

/// A larger frame is decompressed as a stream. By default xz makes blocks of 24 MiB.
inline constexpr size_t kMaxFrameBytes = size_t{24} << 20;

/// Splits a file into frames that state their sizes: zstd's frames, bgzip's members, xz's blocks.
class FrameSplitter {
 public:
  virtual ~FrameSplitter() = default;

  /// What begins `bytes`. The next call's bytes follow kWhole and kFraming.
  virtual Frame next(std::span<const std::byte> bytes) = 0;

  /// Decompresses consecutive frames in `packed`. Thread-safe. kCorruption for damage, and if a
  /// frame's size is not the stated one.
  virtual Result<std::vector<std::byte>> unpack(const std::string& packed,
                                                const std::vector<Frame>& frames) const = 0;

  /// Unpacks what follows the last frame, whatever it is. The splitter is of no use then.
  virtual Result<std::unique_ptr<Unpacker>> unpack_rest() = 0;
};

/// how: not kNone.
std::unique_ptr<FrameSplitter> make_frame_splitter(Compression how);

/// make_frame_splitter(Compression::kXz).
std::unique_ptr<FrameSplitter> make_xz_splitter();

}  // namespace meg::io
