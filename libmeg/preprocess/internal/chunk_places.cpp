#include "libmeg/preprocess/internal/chunk_places.h"

#include <fmt/format.h>

#include <algorithm>

namespace meg::preprocess {

void ChunkPlaces::add(const TextChunk& chunk, const DocumentCounts& counts) {
  const auto number = static_cast<size_t>(chunk.number);
  // Chunks end on any thread in any order: the lines of those before may not be known yet. Hence
  // describe() is called at the end, and adds up.
  places_.resize(std::max(places_.size(), number + 1));
  places_[number] = {chunk.input, counts.lines};
}

std::string ChunkPlaces::describe(const TextSource& source, int64_t chunk,
                                  const BadLine& bad) const {
  const auto number = static_cast<size_t>(chunk);
  const int input = places_[number].input;
  const std::string& name = source.names()[static_cast<size_t>(input)];
  if (bad.line == BadLine::kPlaced) return fmt::format("{}: {}", name, bad.error.message());
  // For a shard that begins within the file this reads all bytes before it, but only if there is an
  // error to report.
  const Result<int64_t> before = source.lines_before(input);
  int64_t line = (before.has_value() ? *before : 0) + bad.line + 1;
  size_t i = number;
  for (; i > 0 && places_[i - 1].input == input; --i) line += places_[i - 1].lines;
  if (i == 0 && input == input_) line += lines_;
  return fmt::format("{}: line {}, {}", name, line, bad.error.message());
}

}  // namespace meg::preprocess
