#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/byte_stream.h"

namespace meg::tools {

/// The lines of a text that a program reads one by one: a file, a pipe or standard input ("-"). A
/// byte order mark at the begin and the ends of lines (LF, CRLF, CR) are no part of them; a note on
/// standard error says once that there was a mark, and once that lines end in CR.
class TextLines {
 public:
  /// Opening a pipe does not wait for its writer.
  static Result<TextLines> open(const std::string& path);

  /// The path, or "standard input".
  const std::string& name() const { return file_->path(); }

  /// Reads the next line; false at the end. Waits for no more than the line.
  Result<bool> next(std::string& line);

 private:
  explicit TextLines(io::FileDescriptor file);

  Result<bool> read_more();
  void skip_mark();

  std::unique_ptr<io::FileDescriptor> file_;  ///< At one place, for the stream.
  std::unique_ptr<io::ByteStream> stream_;
  std::string bytes_;  ///< Read, from `begin_` on not yet taken.
  size_t begin_ = 0;
  bool is_end_ = false;
  bool has_begun_ = false;
  bool has_noted_cr_ = false;
};

}  // namespace meg::tools
