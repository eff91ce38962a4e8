#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/preprocess/sources/internal/record_scanner.h"

namespace meg::preprocess {

/// Finds the rows of a csv (RFC 4180; LF, CRLF and a lone CR end a row outside of quotes) and, in
/// the first row, the columns. A quote inside a field that does not begin with one is an ordinary
/// character. Rows without a byte are passed over.
class CsvScanner : public RecordScanner {
 public:
  CsvScanner(const InputOptions& options, const std::vector<std::string>& keys);

  Status scan(std::string_view text, bool is_end) override;
  void take(std::string_view text, TextChunk& chunk) override;

 private:
  enum class State { kFieldBegin, kPlain, kQuoted, kQuote };

  void skip_in_field(std::string_view text);
  void step(char found);
  Status end_row(std::string_view text, size_t end, size_t next);
  Status place_columns(std::string_view text, size_t end);
  std::string missing_column(const std::string& column,
                             const std::vector<std::string>& names) const;

  std::vector<std::string> columns_;
  bool has_names_only_;
  bool has_header_;
  std::optional<CsvLayout> layout_;  // once the first row is known
  bool is_begin_ = true;
  State state_ = State::kFieldBegin;
  size_t row_ = 0;  // where it begins
};

/// Removes a row's first field, unchanged, with its quotes; false if none is left. Before the first
/// call `rest` must be the row.
bool take_csv_field(std::optional<std::string_view>& rest, std::string_view& field);

/// The text of a field. It is stored in `buffer` if the field has doubled quotes. kCorruption if
/// something follows the closing quote.
Result<std::string_view> unquote_csv_field(std::string_view field, std::string& buffer);

/// Skips a byte order mark by moving `begin` after it. False if more bytes are needed to decide.
bool skip_byte_order_mark(std::string_view text, bool is_end, bool& is_begin, size_t& begin);

}  // namespace meg::preprocess
