#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "libmeg/base/result.h"
#include "libmeg/io/byte_stream.h"

namespace meg::preprocess {

using io::kStandardInput;

/// Bytes [begin, end) of a file.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// One input, open: a file, a pipe, standard input or an object of a store. Several threads may
/// read it at offsets.
class InputFile {
 public:
  /// Opening a pipe does not wait for its writer.
  static Result<std::unique_ptr<InputFile>> open(const std::string& path);

  virtual ~InputFile() = default;

  /// Names the input in messages.
  const std::string& name() const { return name_; }

  /// The range of its bytes: all of a regular file or an object; standard input's from its position
  /// on; nullopt if it can only be read once.
  virtual Result<std::optional<ByteRange>> extent() const = 0;

  /// Reads until `into` is full or the file ends. Not of what can only be read once.
  virtual Result<size_t> read_at(int64_t offset, std::span<std::byte> into) const = 0;

  /// A part of what is read at offsets; without one all bytes that come, once. Must not outlive
  /// the file.
  virtual std::unique_ptr<io::ByteStream> stream(std::optional<ByteRange> part,
                                                 const io::StreamOptions& options) const = 0;

  /// Whether each read_at() takes so long that a stream should be used for large parts.
  virtual bool is_remote() const = 0;

  /// Changes with its content, for who reads it again.
  virtual Result<std::string> identity() const = 0;

 protected:
  explicit InputFile(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

}  // namespace meg::preprocess
