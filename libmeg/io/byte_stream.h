#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// Bytes that are read once, sequentially. One thread at a time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills `into`, which is not empty, with at least one byte; 0 at the end. Errors name the file.
  virtual Result<size_t> read(std::span<std::byte> into) = 0;
};

/// The path that means standard input.
inline constexpr const char* kStandardInput = "-";

/// Opens a file or pipe that is read once, or, for kStandardInput, a copy of standard input.
/// Opening a pipe does not wait for its writer.
Result<FileDescriptor> open_input(const std::string& path);

enum class Compression { kNone, kGzip, kZstd, kXz };

/// Number of bytes at the start of a file that compression_of examines.
inline constexpr size_t kCompressionMagicBytes = 6;

/// The compression that the first bytes of a file indicate, whatever its name.
Compression compression_of(std::string_view begin);

struct StreamOptions {
  /// Once true, waiting for a pipe's bytes ends with kCancelled; must outlive the stream.
  const std::atomic<bool>* interrupted = nullptr;
  /// Ratio of decompressed to compressed bytes above which an input counts as a decompression bomb
  /// (gzip reaches at most 1032). Checked from 64 MiB on.
  int64_t max_compression_ratio = 2000;
  /// Whether content_stream() decompresses on a separate thread.
  bool ahead = true;
  /// Threads that decompress one file if it has frames that state their sizes: those of zstd and
  /// bgzip, and blocks of xz.
  int threads = 1;
};

/// `file`, which must outlive the stream, from its position on.
std::unique_ptr<ByteStream> file_stream(const FileDescriptor& file, const StreamOptions& options);

/// The decompressed bytes of `packed`: any number of consecutive gzip members, zstd frames or xz
/// streams. Memory is bounded, whatever the input claims. name: of the file, for errors:
/// kCorruption for damage, truncation and trailing data, kResourceExhausted above the ratio and for
/// frames that need much more memory than usual.
std::unique_ptr<ByteStream> unpacked_stream(std::unique_ptr<ByteStream> packed, Compression how,
                                            std::string name, const StreamOptions& options);

/// `stream`, prefetched by a separate thread, a few blocks ahead.
std::unique_ptr<ByteStream> read_ahead_stream(std::unique_ptr<ByteStream> stream);

/// The content of the file `name`, whose bytes `packed` returns: decompressed if it begins like a
/// compressed file, otherwise unchanged.
Result<std::unique_ptr<ByteStream>> content_stream(std::unique_ptr<ByteStream> packed,
                                                   std::string name, const StreamOptions& options);

}  // namespace meg::io
