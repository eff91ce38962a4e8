#include "libmeg/cleaning/internal/packed.h"

#include <zlib.h>
#include <zstd.h>

#include <limits>
#include <utility>

namespace meg::cleaning {
namespace {

Status failed(std::string_view what) {
  return make_error(StatusCode::kResourceExhausted, "{}: cannot compress the output", what);
}

Result<std::string> gzipped(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return failed("gzip");
  }
  // One call takes at most 4 GiB.
  constexpr size_t kMost = size_t{1} << 30;
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  size_t written = 0;
  int code = Z_OK;
  while (code == Z_OK || code == Z_BUF_ERROR) {
    const size_t taken = std::min(text.size(), kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(taken);
    const size_t room = std::min(out.size() - written, kMost);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    code = deflate(&stream, taken == text.size() ? Z_FINISH : Z_NO_FLUSH);
    text.remove_prefix(taken - stream.avail_in);
    written += room - stream.avail_out;
  }
  deflateEnd(&stream);
  if (code != Z_STREAM_END) return failed("gzip");
  out.resize(written);
  return out;
}

Result<std::string> zstandard(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t size =
      ZSTD_compress(out.data(), out.size(), text.data(), text.size(), ZSTD_CLEVEL_DEFAULT);
  if (ZSTD_isError(size) != 0) return failed("zstd");
  out.resize(size);
  return out;
}

}  // namespace

Packing packing_of(std::string_view path) {
  if (path.ends_with(".gz")) return Packing::kGzip;
  if (path.ends_with(".zst")) return Packing::kZstd;
  return Packing::kNone;
}

Result<std::string> packed(std::string text, Packing packing) {
  // An empty output is a valid file of its kind nevertheless: see clean().
  if (packing == Packing::kGzip) return gzipped(text);
  if (packing == Packing::kZstd) return zstandard(text);
  return text;
}

}  // namespace meg::cleaning
