#include "libmeg/preprocess/internal/chunk_documents.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "libmeg/text/line_ends.h"

// The one place that goes through the documents of a chunk, for tokenizing and for reading texts
// alike. It decides which lines are blank, which are bad, and where a bad one is said to be; what a
// document is used for is the caller's `take`.

namespace meg::preprocess {
namespace {

/// The error of a record, whose message begins with `byte N` of the record, at its place in the
/// lines of the chunk.
/// Readers of documents count bytes from the document's first one. A csv row or a JSON element may
/// span lines of the file, so the LFs before the byte are counted to name the line a text editor
/// would show.
BadLine placed_in_line(const Status& error, std::string_view document, const Record& record) {
  const std::string& message = error.message();
  size_t byte = 1;
  const char* const number = message.data() + std::string_view("byte ").size();
  const char* const end = message.data() + message.size();
  // A message that does not begin with `byte N` is placed at the document's first byte.
  const std::from_chars_result parsed = std::from_chars(std::min(number, end), end, byte);
  const std::string_view before = document.substr(0, byte - 1);
  const int64_t lines = std::count(before.begin(), before.end(), '\n');
  const int64_t column = lines > 0 ? static_cast<int64_t>(before.size() - before.rfind('\n') - 1)
                                   : record.column + static_cast<int64_t>(before.size());
  return {record.line + lines,
          Status(error.code(),
                 fmt::format("byte {}{}", column + 1, std::string_view(parsed.ptr, end)))};
}

/// The error of a row, of which no byte is named.
BadLine placed_in_row(const Status& error, const TextChunk& chunk, size_t row) {
  // The byte that the message begins with is one of the chunk's memory, which the file does not
  // have.
  const std::string& message = error.message();
  const size_t place = message.starts_with("byte ") ? message.find(": ") + 2 : 0;
  return {BadLine::kPlaced,
          Status(error.code(),
                 fmt::format("row group {}, row {}: {}", chunk.rows.group,
                             chunk.rows.first + static_cast<int64_t>(row), message.substr(place)))};
}

/// Takes note of a document that could not be used; false where it is the end.
bool take_bad(BadLine bad, bool stop_at_bad_line, DocumentCounts& counts) {
  ++counts.bad_line_count;
  // All bad lines are counted; only the first are kept, as a file of the wrong kind has nothing but
  // bad lines.
  if (counts.bad_lines.size() < DocumentCounts::kReportedBadLines) {
    counts.bad_lines.push_back(std::move(bad));
  }
  return !stop_at_bad_line;
}

void read_lines(const TextChunk& chunk, bool stop_at_bad_line, const TakeDocument& take,
                DocumentCounts& counts) {
  std::string_view lines = chunk.lines;
  // Readers of JSON refuse it.
  if (chunk.format == RecordFormat::kTxtLines && chunk.offset == 0 &&
      lines.starts_with(text::kByteOrderMark)) {
    lines.remove_prefix(text::kByteOrderMark.size());
  }
  std::string_view line;
  for (; text::take_line(lines, line); ++counts.lines) {
    if (text::is_blank_line(line)) {
      ++counts.blank_lines;
      continue;
    }
    const Result<bool> is_taken = take(line, 0);
    if (is_taken.has_value()) {
      counts.documents += *is_taken ? 1 : 0;
    } else if (!take_bad({counts.lines, is_taken.error()}, stop_at_bad_line, counts)) {
      return;
    }
  }
}

void read_records(const TextChunk& chunk, bool stop_at_bad_line, const TakeDocument& take,
                  DocumentCounts& counts) {
  counts.lines = chunk.line_count;
  for (size_t i = 0; i < chunk.records.size(); ++i) {
    const Record& record = chunk.records[i];
    const std::string_view document = chunk.lines.substr(record.begin, record.size);
    const Result<bool> is_taken = take(document, i);
    if (is_taken.has_value()) {
      counts.documents += *is_taken ? 1 : 0;
      continue;
    }
    BadLine bad = chunk.format == RecordFormat::kRows
                      ? placed_in_row(is_taken.error(), chunk, i)
                      : placed_in_line(is_taken.error(), document, record);
    if (!take_bad(std::move(bad), stop_at_bad_line, counts)) return;
  }
}

}  // namespace

dataset::DocumentPlace place_of(std::string_view document, size_t record, const TextChunk& chunk) {
  dataset::DocumentPlace place{.at = 0, .source = static_cast<uint32_t>(chunk.input)};
  if (chunk.format == RecordFormat::kRows) {
    place.at = static_cast<uint64_t>(chunk.rows.group);
    place.row = static_cast<uint32_t>(chunk.rows.first + static_cast<int64_t>(record));
  } else {
    place.at = static_cast<uint64_t>(chunk.offset + (document.data() - chunk.lines.data()));
  }
  return place;
}

void read_documents(const TextChunk& chunk, bool stop_at_bad_line, const TakeDocument& take,
                    DocumentCounts& counts) {
  (chunk.has_lines() ? read_lines : read_records)(chunk, stop_at_bad_line, take, counts);
}

}  // namespace meg::preprocess
