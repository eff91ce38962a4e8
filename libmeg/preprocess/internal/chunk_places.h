#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/preprocess/internal/chunk_documents.h"
#include "libmeg/preprocess/sources/internal/text_source.h"

namespace meg::preprocess {

/// Finds the line numbers of chunks in their inputs, once all earlier chunks have been read. Chunks
/// may be added in any order.
class ChunkPlaces {
 public:
  /// lines: of `input`, before the first chunk.
  ChunkPlaces(int64_t input, int64_t lines) : input_(input), lines_(lines) {}

  void add(const TextChunk& chunk, const DocumentCounts& counts);

  /// The error, preceded by `FILE: line L, ` unless it has a place of its own.
  std::string describe(const TextSource& source, int64_t chunk, const BadLine& bad) const;

 private:
  struct Place {
    int input = -1;
    int64_t lines = 0;
  };

  const int64_t input_, lines_;  // before the first chunk
  std::vector<Place> places_;    // by chunk
};

}  // namespace meg::preprocess
