#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/text/text_padding.h"

namespace meg::preprocess {

/// A run of whole lines of one input, in a buffer that is used again for the next run.
struct TextChunk {
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };

  int64_t number = 0;      ///< 0, 1, 2, ... in the order of the input
  int input = 0;           ///< index into TextSource::names()
  int64_t offset = 0;      ///< of the first byte, in its input
  std::string_view lines;  ///< points into `buffer`, with kTextPadding readable bytes behind it

  std::unique_ptr<char, Free> buffer;  ///< from malloc, so that a growing line need not be copied
  size_t capacity = 0;                 ///< bytes of buffer
};

/// Hands out the inputs' lines in chunks of about `chunk_bytes` that end at a line end (or at the
/// input's end); a longer line is a chunk of its own. LF, CRLF and a lone CR end a line, as in
/// Python's text mode; a line never continues in the next input.
///
/// A regular file is read up to the size it has when its turn comes.
class TextSource {
 public:
  /// inputs: paths, glob patterns, or "-" for standard input; in order, a glob's files sorted by
  /// their bytes. A path that exists is never read as a pattern. chunk_bytes: > 0.
  /// Errors: kInvalidArgument where "-" stands twice, kNotFound where a path or a glob's files do
  /// not exist, kUnsupported where a file is compressed, kIoError for folders and files that may
  /// not be read.
  static Result<TextSource> open(const std::vector<std::string>& inputs, size_t chunk_bytes);
  TextSource(TextSource&&) noexcept;
  TextSource& operator=(TextSource&&) noexcept;
  ~TextSource();

  /// Fills chunk with the next run of lines; false at the end. Safe to call from several threads,
  /// each with its own chunk: they wait for each other only while a regular file's next line end is
  /// looked up, and during the reading of other inputs. After an error the source is at its end.
  Result<bool> next(TextChunk& chunk);

  /// Makes next() stop waiting for a pipe's bytes, with kCancelled; from any thread.
  void interrupt();

  /// Bytes of all inputs; -1 where one is a pipe.
  int64_t total_bytes() const;

  /// The inputs' names for messages, globs resolved.
  const std::vector<std::string>& names() const;

 private:
  struct State;
  explicit TextSource(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace meg::preprocess
