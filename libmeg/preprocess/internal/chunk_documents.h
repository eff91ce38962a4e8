#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// A line that could not be used. line: its number in the chunk, from 0; kPlaced if the error
/// includes its place.
struct BadLine {
  static constexpr int64_t kPlaced = -1;

  int64_t line = 0;
  Status error;
};

/// What the lines of a chunk were.
struct DocumentCounts {
  static constexpr size_t kReportedBadLines = 5;

  int64_t lines = 0;
  int64_t documents = 0;  ///< that were taken
  int64_t blank_lines = 0;
  int64_t bad_line_count = 0;
  std::vector<BadLine> bad_lines;  ///< the first kReportedBadLines
};

/// Processes a document and returns whether it was used or left out. record: the number of the
/// chunk's record, 0 for lines. An error is that of a bad line and begins with `byte N` of the
/// document, from 1.
using TakeDocument = std::function<Result<bool>(std::string_view document, size_t record)>;

/// Where a document of a chunk that `take` is given was read.
dataset::DocumentPlace place_of(std::string_view document, size_t record, const TextChunk& chunk);

/// Passes the documents of a chunk to `take`, in order, and counts them. Stops at a bad line if
/// requested.
void read_documents(const TextChunk& chunk, bool stop_at_bad_line, const TakeDocument& take,
                    DocumentCounts& counts);

}  // namespace meg::preprocess
