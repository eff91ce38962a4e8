#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/core/result.h"

namespace meg {

/// A run of whole lines of one input, in a buffer that is used again for the next run.
struct TextChunk {
  int64_t number = 0;      ///< 0, 1, 2, ... in the order of the input
  int input = 0;           ///< index into TextSource::names()
  int64_t offset = 0;      ///< of the first byte, in its input
  std::string_view lines;  ///< points into `buffer`, with kTextPadding readable bytes behind it

  std::unique_ptr<char[]> buffer;
  size_t capacity = 0;
};

/// Hands out the inputs' lines in chunks of about `chunk_bytes` that end at a line end (or at the
/// input's end); a longer line is a chunk of its own. LF, CRLF and a lone CR end a line.
class TextSource {
 public:
  /// inputs: paths, glob patterns, or "-" for standard input; in order, a glob's files sorted.
  /// kNotFound where a path or a glob's files do not exist.
  static Result<TextSource> open(const std::vector<std::string>& inputs, size_t chunk_bytes);
  TextSource(TextSource&&) noexcept;
  ~TextSource();

  /// Fills chunk with the next run of lines; false at the end. Safe to call from several threads.
  Result<bool> next(TextChunk& chunk);

  /// Bytes of all inputs; -1 where one is a pipe.
  int64_t total_bytes() const;

  /// The inputs' names for messages, globs resolved.
  const std::vector<std::string>& names() const;

 private:
  struct State;
  explicit TextSource(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Takes the first line off `lines` (without its end: LF, CRLF or CR). False where none is left.
bool take_line(std::string_view& lines, std::string_view& line);

}  // namespace meg
