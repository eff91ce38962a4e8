#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"
#include "libmeg/preprocess/sources/json_line.h"
#include "libmeg/text/text_list.h"

namespace meg::preprocess {

/// Takes the texts of the JSON keys out of one document of a chunk, whatever its format. One reader
/// belongs to one thread.
class DocumentReader {
 public:
  explicit DocumentReader(const std::vector<std::string>& keys);

  /// document: a line of `chunk`, or its record of number `record`, not blank, with kTextPadding
  /// readable bytes after it.
  /// Errors say the byte in it: `byte 17: expected ..., found ...` (from 1).
  Status read(std::string_view document, size_t record, const TextChunk& chunk);

  /// The sequences of keys[key] in the document read last, as long as its bytes are there.
  const text::TextList& texts(size_t key) const;

 private:
  Status read_row(std::string_view row, const CsvLayout& layout);
  Status read_values(const TextChunk& chunk, size_t record);
  Status check_utf8(std::string_view text, size_t place) const;
  Status take_text(size_t key, std::string_view text, size_t place);

  JsonLineParser json_;
  bool is_json_ = true;
  std::vector<std::string> buffers_;  // of fields with quotes in them
  std::vector<text::TextList> texts_;
};

}  // namespace meg::preprocess
