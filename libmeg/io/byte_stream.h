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

/// Bytes that are read once, from begin to end. One thread at a time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills `into`, which is not empty, with at least one byte; 0 at the end. Errors name the file.
  virtual Result<size_t> read(std::span<std::byte> into) = 0;
};

enum class Compression { kNone, kGzip, kZstd, kXz };

/// Bytes of a file's begin that compression_of looks at.
inline constexpr size_t kCompressionMagicBytes = 6;

/// What the first bytes of a file say, whatever its name.
Compression compression_of(std::string_view begin);

struct StreamOptions {
  /// Once true, waiting for a pipe's bytes ends with kCancelled; must outlive the stream.
  const std::atomic<bool>* interrupted = nullptr;
  /// Unpacked bytes for one packed byte from which on an input is taken for a bomb (gzip reaches
  /// 1032 at most). Looked at from 64 MiB on.
  int64_t max_compression_ratio = 2000;
  /// Whether content_stream() unpacks on a thread of its own.
  bool ahead = true;
  /// That unpack one file, where it has frames that say their sizes: of zstd, bgzip or xz (blocks).
  int threads = 1;
};

/// `file`, which must outlive the stream, from its position on.
std::unique_ptr<ByteStream> file_stream(const FileDescriptor& file, const StreamOptions& options);

/// The bytes that `packed` unpacks to: any number of gzip members, zstd frames or xz streams one
/// after another. Memory is bounded, whatever the input says of itself. name: of the file, for
/// errors: kCorruption for damage, for an end in the middle and for what follows the last member,
/// kResourceExhausted past the ratio and for frames that need much more memory than usual.
std::unique_ptr<ByteStream> unpacked_stream(std::unique_ptr<ByteStream> packed, Compression how,
                                            std::string name, const StreamOptions& options);

/// `stream`, read by a thread of its own some blocks ahead.
std::unique_ptr<ByteStream> read_ahead_stream(std::unique_ptr<ByteStream> stream);

/// The content of a file of that name, whose bytes `packed` gives: unpacked where it begins as a
/// compressed file does, else as it is.
Result<std::unique_ptr<ByteStream>> content_stream(std::unique_ptr<ByteStream> packed,
                                                   std::string name, const StreamOptions& options);

}  // namespace meg::io
