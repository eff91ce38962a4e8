#include "libmeg/io/internal/unpacker.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "libmeg/io/internal/gzip_unpacker.h"
#include "libmeg/io/internal/xz_unpacker.h"

// One class for each library, with two duties beyond calling it: to say after every step whether
// the data may end here, to distinguish a cut file from a whole one, and to continue with the next
// member, frame or stream, as concatenated files have several. None of them lets the input decide
// how much memory is taken.

namespace meg::io {
namespace {

class ZstdUnpacker : public Unpacker {
 public:
  ZstdUnpacker() : stream_(::ZSTD_createDStream(), &::ZSTD_freeDStream) {}

  bool begin() { return stream_ != nullptr; }

  Result<Step> unpack(std::span<const std::byte> in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    if (in.empty() && between_frames_) return Step{.at_end = true};
    // Frames follow each other by themselves: the call that comes after a frame's end begins the
    // next. It refuses windows of more than 128 MiB, zstd's default limit.
    const size_t hint = ::ZSTD_decompressStream(stream_.get(), &to, &from);
    if (::ZSTD_getErrorCode(hint) == ZSTD_error_frameParameter_windowTooLarge) {
      return Status(StatusCode::kResourceExhausted,
                    "expected a window of at most 128 MiB, found a larger one: decompress it in a "
                    "pipe (zstd -dc --long=31 FILE | ... --input -)");
    }
    if (::ZSTD_getErrorCode(hint) == ZSTD_error_dictionary_wrong) {
      return Status(
          StatusCode::kUnsupported,
          "compressed with a dictionary (zstd -D), which is not supported: decompress it");
    }
    if (::ZSTD_isError(hint) != 0) {
      return make_error(StatusCode::kCorruption, "damaged: {}", ::ZSTD_getErrorName(hint));
    }
    between_frames_ = hint == 0;
    return Step{.consumed = from.pos, .produced = to.pos, .at_end = between_frames_};
  }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  bool between_frames_ = true;
};

}  // namespace

Result<std::unique_ptr<Unpacker>> make_unpacker(Compression how) {
  switch (how) {
    case Compression::kGzip:
      return std::unique_ptr<Unpacker>(std::make_unique<GzipUnpacker>());
    case Compression::kZstd: {
      auto unpacker = std::make_unique<ZstdUnpacker>();
      if (!unpacker->begin()) return Status(StatusCode::kResourceExhausted, "out of memory");
      return std::unique_ptr<Unpacker>(std::move(unpacker));
    }
    default:
      return std::unique_ptr<Unpacker>(std::make_unique<XzUnpacker>());
  }
}

}  // namespace meg::io
