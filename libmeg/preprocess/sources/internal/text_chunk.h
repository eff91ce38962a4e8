#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/text/text_padding.h"

namespace meg::preprocess {

/// How the documents of a chunk are arranged in its text.
enum class RecordFormat {
  kJsonLines,
  kTxtLines,
  kJsonElements,  ///< As TextChunk::records, like the following.
  kCsvRows,
  kTxt,
  kRows,  ///< As TextChunk::rows.
};

/// One document's bytes in a chunk.
struct Record {
  size_t begin = 0;
  size_t size = 0;
  int64_t line = 0;    ///< LFs before it in the chunk
  int64_t column = 0;  ///< bytes before it in its line
};

/// Which fields of a csv's rows are texts.
struct CsvLayout {
  std::vector<size_t> columns;  ///< one a JSON key
  size_t field_count = 0;       ///< of every row
};

/// What a row holds for a JSON key.
struct RowValue {
  enum class Kind : uint8_t { kText, kList, kNull, kListWithNull };

  Kind kind = Kind::kText;
  size_t first = 0;  ///< of its texts, in RowTexts::texts
  size_t count = 0;
};

/// The rows of a chunk of columns, in the order of its records.
struct RowTexts {
  struct Text {
    size_t begin = 0;  ///< in the chunk
    size_t size = 0;
  };

  int64_t group = 0;             ///< their row group or record batch, from 0
  int64_t first = 0;             ///< of them in it
  std::vector<RowValue> values;  ///< row by row, one for each JSON key
  std::vector<Text> texts;
};

/// A run of whole documents of one input, in a buffer that is used again for the next run.
struct TextChunk {
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };

  int64_t number = 0;  ///< 0, 1, 2, ... in the order of the input
  int input = 0;       ///< index into TextSource::names()
  int64_t offset = 0;  ///< of the first byte, in its input's decompressed content; of kRows a row
  int64_t end = 0;     ///< after its last byte or row there
  std::string_view lines;  ///< points into `buffer`, with kTextPadding readable bytes after it

  RecordFormat format = RecordFormat::kJsonLines;
  std::vector<Record> records;  ///< unless `format` has lines
  int64_t line_count = 0;       ///< LFs in the text; only where there are records
  CsvLayout csv;                ///< of kCsvRows
  RowTexts rows;                ///< of kRows

  /// The error after these documents, which ends the work once they are done.
  Status error;

  bool has_lines() const {
    return format == RecordFormat::kJsonLines || format == RecordFormat::kTxtLines;
  }

  std::unique_ptr<char, Free> buffer;  ///< from malloc, so that a growing line need not be copied
  size_t capacity = 0;                 ///< bytes of buffer
};

/// Makes room for `bytes` and the padding, keeping the content; memory comes from realloc, which
/// moves pages instead of bytes for long lines.
Status grow_chunk(TextChunk& chunk, size_t bytes);

/// Makes room for `bytes`, not keeping the content; a buffer that an earlier long line left much
/// larger than a chunk is given back.
Status prepare_chunk(TextChunk& chunk, size_t bytes, size_t chunk_bytes);

/// Makes the first `bytes` of the buffer the chunk's text.
void finish_chunk(TextChunk& chunk, size_t bytes);

}  // namespace meg::preprocess
