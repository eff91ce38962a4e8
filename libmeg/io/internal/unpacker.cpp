#include "libmeg/io/internal/unpacker.h"

#include <libdeflate.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>

#include "libmeg/io/internal/xz_unpacker.h"

// One class for each library, with two duties beyond calling it: to say after every step whether
// the data may end here, so that a cut file is told from a whole one, and to continue with the next
// member, frame or stream, as concatenated files have several. None of them lets the input decide
// how much memory is taken.

namespace meg::io {
namespace {

Status no_memory() { return Status(StatusCode::kResourceExhausted, "out of memory"); }

Status damaged(std::string_view what) {
  return make_error(StatusCode::kCorruption, "damaged: {}", what);
}

uInt clamp(size_t bytes) {
  return static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max()));
}

class GzipUnpacker : public Unpacker {
 public:
  GzipUnpacker() = default;
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  ~GzipUnpacker() override { ::inflateEnd(&stream_); }

  /// 15: the largest window; 16 more: gzip's header and checksum, and no other format.
  bool begin() { return ::inflateInit2(&stream_, 15 + 16) == Z_OK; }

  Result<Step> unpack(std::span<const std::byte> in, std::span<std::byte> out) override {
    if (between_members_) {
      if (tries_whole_ && !in.empty() && in[0] == std::byte{0x1f}) {
        const Step whole = unpack_whole(in, out);
        if (whole.consumed > 0) return whole;
      }
      return begin_member(in);
    }
    // zlib does not write to what it reads.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = clamp(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = clamp(out.size());
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return no_memory();
    // Z_BUF_ERROR only says that this step could do nothing; whether more input comes is the
    // caller's to know.
    if (code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END) {
      return damaged(stream_.msg != nullptr ? stream_.msg : "not gzip data");
    }
    between_members_ = code == Z_STREAM_END;
    return Step{.consumed = clamp(in.size()) - stream_.avail_in,
                .produced = clamp(out.size()) - stream_.avail_out,
                .at_end = between_members_};
  }

 private:
  /// A member that is there as a whole and has room: libdeflate takes half of zlib's time, but
  /// cannot stop in between. A file whose members are larger is not tried again, and what is wrong
  /// with a member is zlib's to say.
  Step unpack_whole(std::span<const std::byte> in, std::span<std::byte> out) {
    if (whole_ == nullptr) whole_.reset(::libdeflate_alloc_decompressor());
    Step step{.at_end = true};
    tries_whole_ =
        whole_ != nullptr &&
        ::libdeflate_gzip_decompress_ex(whole_.get(), in.data(), in.size(), out.data(), out.size(),
                                        &step.consumed, &step.produced) == LIBDEFLATE_SUCCESS;
    return tries_whole_ ? step : Step();
  }

  /// After a member come zeros, which pad tapes, another member or the end.
  Result<Step> begin_member(std::span<const std::byte> in) {
    const auto zeros =
        std::find_if(in.begin(), in.end(), [](std::byte b) { return b != std::byte{}; });
    const auto count = static_cast<size_t>(zeros - in.begin());
    if (count < in.size()) {
      if (in[count] != std::byte{0x1f}) return damaged("not a gzip member after the last one");
      ::inflateReset(&stream_);
      between_members_ = false;
    }
    return Step{.consumed = count, .at_end = between_members_};
  }

  struct FreeDecompressor {
    void operator()(libdeflate_decompressor* whole) const { ::libdeflate_free_decompressor(whole); }
  };

  z_stream stream_{};
  bool between_members_ = true;
  bool tries_whole_ = true;
  std::unique_ptr<libdeflate_decompressor, FreeDecompressor> whole_;
};

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
                    "expected a window of at most 128 MiB, found a larger one (zstd --long)");
    }
    if (::ZSTD_getErrorCode(hint) == ZSTD_error_dictionary_wrong) {
      return Status(
          StatusCode::kUnsupported,
          "compressed with a dictionary (zstd -D), which is not supported: decompress it");
    }
    if (::ZSTD_isError(hint) != 0) return damaged(::ZSTD_getErrorName(hint));
    between_frames_ = hint == 0;
    return Step{.consumed = from.pos, .produced = to.pos, .at_end = between_frames_};
  }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  bool between_frames_ = true;
};

template <class T>
Result<std::unique_ptr<Unpacker>> make() {
  auto unpacker = std::make_unique<T>();
  if (!unpacker->begin()) return no_memory();
  return std::unique_ptr<Unpacker>(std::move(unpacker));
}

}  // namespace

Result<std::unique_ptr<Unpacker>> make_unpacker(Compression how) {
  switch (how) {
    case Compression::kGzip:
      return make<GzipUnpacker>();
    case Compression::kZstd:
      return make<ZstdUnpacker>();
    default:
      return std::unique_ptr<Unpacker>(std::make_unique<XzUnpacker>());
  }
}

}  // namespace meg::io
