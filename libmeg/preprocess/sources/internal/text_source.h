#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/input_options.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// Hands out the inputs' documents in chunks of about `chunk_bytes` that end after a document; a
/// longer one is a chunk of its own. Of lines, LF, CRLF and a lone CR are the ends, as in Python's
/// text mode; no document continues in the next input. Compressed inputs (gzip, zstd, xz, by their
/// first bytes) are decompressed.
///
/// A regular file is read up to the size it has when its turn comes.
class TextSource {
 public:
  /// inputs: paths, folders, glob patterns, or "-" for standard input; in order, the files of a
  /// folder (not those of folders in it, nor hidden ones) or glob sorted by their bytes. A path
  /// that exists is never read as a pattern. chunk_bytes: > 0. keys: the JSON keys, of which a
  /// csv's columns have their names. Errors: kInvalidArgument where "-" stands twice and for
  /// options that contradict each other, kNotFound where a path or a glob's files do not exist,
  /// kUnsupported for formats that are not read, kIoError for files that may not be read.
  static Result<TextSource> open(const std::vector<std::string>& inputs, size_t chunk_bytes,
                                 const InputOptions& options = {},
                                 const std::vector<std::string>& keys = {"text"});
  TextSource(TextSource&&) noexcept;
  TextSource& operator=(TextSource&&) noexcept;
  ~TextSource();

  /// Fills chunk with the next documents; false at the end. Safe to call from several threads,
  /// each with its own chunk: they wait for each other only while a regular file's next line end is
  /// looked up, and during the reading of other inputs but small compressed files and row groups.
  /// An error comes with the number that its chunk would have, or as the chunk's `error` after
  /// documents that go before it; no chunks after it count.
  Result<bool> next(TextChunk& chunk);

  /// Makes next() begin at byte `offset` of the content of names()[input], where a chunk ended when
  /// these inputs were read before. Called before next(), which finds the place. kCorruption,
  /// there or here, where there is none.
  Status start_at(int input, int64_t offset);

  /// Makes next() stop waiting for a pipe's bytes, with kCancelled; from any thread.
  void interrupt();

  /// Bytes of all inputs; -1 where one is a pipe or compressed.
  int64_t total_bytes() const;

  /// Whether an input can be read only once.
  bool has_pipe() const;

  /// Lines of an input that belong to shards before this one; reads them.
  Result<int64_t> lines_before(int input) const;

  /// The inputs, globs and folders resolved; "-" for standard input.
  const std::vector<std::string>& paths() const;

  /// The inputs' names for messages, globs and folders resolved.
  const std::vector<std::string>& names() const;

  /// What tells, where there are shards, whether another process shares out the same inputs: how
  /// many there are, their bytes, and a digest of their sizes and of their names without folders.
  const std::string& shared_inputs() const;

  /// What the inputs leave out or hold twice, maybe by mistake, such as folders in folders.
  const std::vector<std::string>& notes() const;

 private:
  struct State;
  explicit TextSource(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace meg::preprocess
