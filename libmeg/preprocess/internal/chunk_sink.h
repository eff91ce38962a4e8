#pragma once

#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/preprocess/internal/tokenized_chunk.h"

namespace meg::preprocess {

/// Takes the chunks of an OrderedWriter.
class ChunkSink {
 public:
  using Marks = std::vector<dataset::IndexedDatasetBuilder::Mark>;  // one a key

  virtual ~ChunkSink() = default;

  /// Finds the place of every document in chunk. Calls decide the order of the documents and must
  /// not overlap in time.
  virtual Status reserve(TokenizedChunk& chunk) = 0;

  /// Writes a chunk after its reserve(); from any thread.
  virtual Status write(const TokenizedChunk& /*chunk*/) const { return {}; }

  // Of sinks that another process may resume.

  /// What has been reserved so far; must not overlap in time with reserve().
  virtual Result<Marks> marks() { return Marks(); }

  /// Flushes to the device; may be called from any thread.
  virtual Status sync() const { return {}; }
};

}  // namespace meg::preprocess
