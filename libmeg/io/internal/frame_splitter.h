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

/// What begins compressed bytes, seen as something that can be decompressed on its own.
struct Frame {
  enum class Kind {
    kNone,     ///< Only decompressing tells where it ends, or it is large.
    kWhole,    ///< It is there.
    kFraming,  ///< What stands between frames, checked already: it decompresses to nothing.
    kMore,     ///< It may be one; more bytes must come to tell.
  };

  Kind kind = Kind::kNone;
  size_t packed = 0;    ///< bytes
  size_t unpacked = 0;  ///< bytes, as it says; at most kMaxFrameBytes
  int check = 0;        ///< xz: the stream's kind of checksum
};

/// Beyond this a frame is decompressed as it comes. xz makes blocks of 24 MiB where nothing else is
/// said.
inline constexpr size_t kMaxFrameBytes = size_t{24} << 20;

/// Cuts a file where frames end that say their sizes: of zstd, members of bgzip, blocks of xz.
class FrameSplitter {
 public:
  virtual ~FrameSplitter() = default;

  /// What begins `bytes`. The next call's bytes follow kWhole and kFraming.
  virtual Frame next(std::span<const std::byte> bytes) = 0;

  /// Unpacks frames that stand one after another in `packed`. May be called by several threads.
  /// kCorruption for damage, and where one lies of its size.
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
