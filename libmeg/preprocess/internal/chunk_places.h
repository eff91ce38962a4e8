#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/preprocess/internal/chunk_documents.h"
#include "libmeg/preprocess/sources/internal/text_source.h"

namespace meg::preprocess {

/// Where the lines of chunks stand in their inputs, once all chunks before have been read. Chunks
/// may come in any order.
class ChunkPlaces {
 public:
  void add(const TextChunk& chunk, const DocumentCounts& counts);

  /// `FILE: line L, `, where the error has no place of its own, and the error.
  std::string describe(const TextSource& source, int64_t chunk, const BadLine& bad) const;

 private:
  struct Place {
    int input = -1;
    int64_t lines = 0;
  };

  std::vector<Place> places_;  // by chunk
};

}  // namespace meg::preprocess
