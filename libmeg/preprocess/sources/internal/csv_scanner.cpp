#include "libmeg/preprocess/sources/internal/csv_scanner.h"

#include <algorithm>
#include <charconv>

#include "libmeg/text/printable.h"

// Finds the ends of rows byte by byte, as quotes may hold LFs, and leaves fields alone: they are
// taken apart later by the threads that tokenize (take_csv_field, unquote_csv_field). What stays
// behind between calls is the state and the position, so that a row may arrive in any number of
// pieces.

namespace meg::preprocess {
namespace {

/// The number that `column` is, if it is one.
std::optional<size_t> column_number(const std::string& column) {
  size_t number = 0;
  const char* const end = column.data() + column.size();
  const auto parsed = std::from_chars(column.data(), end, number);
  if (column.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

CsvScanner::CsvScanner(const InputOptions& options, const std::vector<std::string>& keys)
    : RecordScanner(RecordFormat::kCsvRows),
      columns_(options.csv_columns.empty() ? keys : options.csv_columns),
      has_names_only_(options.csv_columns.empty()),
      has_header_(options.csv_has_header || has_names_only_ ||
                  !std::all_of(columns_.begin(), columns_.end(), [](const std::string& column) {
                    return column_number(column).has_value();
                  })) {}

Status CsvScanner::scan(std::string_view text, bool is_end) {
  if (!skip_byte_order_mark(text, is_end, is_begin_, row_)) return Status();
  for (position_ = std::max(position_, row_); position_ < text.size(); ++position_) {
    skip_in_field(text);
    if (position_ == text.size()) break;
    const char found = text[position_];
    const bool ends_row = (found == '\n' || found == '\r') && state_ != State::kQuoted;
    if (!ends_row) {
      step(found);
      continue;
    }
    const bool is_last = position_ + 1 == text.size();
    // Otherwise the LF would begin the next row, which would then be empty.
    if (found == '\r' && is_last && !is_end) return Status();  // An LF might follow.
    const bool is_pair = found == '\r' && !is_last && text[position_ + 1] == '\n';
    MEG_RETURN_IF_ERROR(end_row(text, position_, position_ + (is_pair ? 2 : 1)));
    // The loop adds one.
    position_ = row_ - 1;
  }
  if (!is_end) return Status();
  if (state_ == State::kQuoted) {
    return error_at(text, row_, "expected a row whose quotes are closed, found the end");
  }
  return end_row(text, text.size(), text.size());
}

/// Skips to the next byte that may end the field, or to the text's end: most bytes mean nothing
/// here.
void CsvScanner::skip_in_field(std::string_view text) {
  if (state_ == State::kQuoted) position_ = std::min(text.find('"', position_), text.size());
  if (state_ != State::kPlain) return;
  const auto ends = [](char c) { return c == ',' || c == '\n' || c == '\r'; };
  position_ = static_cast<size_t>(
      std::find_if(text.begin() + static_cast<std::ptrdiff_t>(position_), text.end(), ends) -
      text.begin());
}

void CsvScanner::step(char found) {
  switch (state_) {
    case State::kFieldBegin:
      state_ = found == '"' ? State::kQuoted : found == ',' ? State::kFieldBegin : State::kPlain;
      break;
    case State::kPlain:
      if (found == ',') state_ = State::kFieldBegin;
      break;
    case State::kQuoted:
      if (found == '"') state_ = State::kQuote;
      break;
    case State::kQuote:  // What may follow is looked at where the field is used.
      state_ = found == '"' ? State::kQuoted : found == ',' ? State::kFieldBegin : State::kPlain;
      break;
  }
}

/// Takes the row [row_, end), after which the next one begins at `next`.
Status CsvScanner::end_row(std::string_view text, size_t end, size_t next) {
  const bool is_first = !layout_.has_value();
  // Rows without a byte are passed over, the header's place included.
  if (end > row_) {
    // The first row that has bytes says where the columns are, whether it is a header or not.
    if (is_first) MEG_RETURN_IF_ERROR(place_columns(text, end));
    if (!is_first || !has_header_) add_record(text, row_, end - row_);
  }
  row_ = end_ = next;
  state_ = State::kFieldBegin;
  return Status();
}

std::string CsvScanner::missing_column(const std::string& column,
                                       const std::vector<std::string>& names) const {
  constexpr size_t kNamesBytes = 300;
  std::string found = fmt::format("expected a column {}, found ", column);
  found += names.size() == 1 ? "one" : fmt::format("{} columns", names.size());
  if (!has_header_) return found;
  std::string all;
  for (const std::string& name : names) {
    all += (all.empty() ? "" : ", ") + name;
    if (all.size() > kNamesBytes) break;  // The first row of what is no csv may be all of the file.
  }
  if (all.size() > kNamesBytes) all.replace(kNamesBytes, all.npos, "...");
  found += ": " + all;
  // In a file with tabs or semicolons the whole row is one field.
  if (names.size() == 1) found += "; fields are separated by commas";
  return found;
}

Status CsvScanner::place_columns(std::string_view text, size_t end) {
  std::vector<std::string> names;
  std::optional<std::string_view> rest = text.substr(row_, end - row_);
  std::string_view field;
  std::string buffer;
  while (take_csv_field(rest, field)) {
    const Result<std::string_view> name = unquote_csv_field(field, buffer);
    if (!name.has_value()) return error_at(text, row_, name.error().message());
    names.emplace_back(*name);
  }
  CsvLayout layout{.columns = {}, .field_count = names.size()};
  for (const std::string& column : columns_) {
    // Columns given by number work without a header. Keys are names alone: a JSON key "0" is not
    // the first column.
    const auto number = has_names_only_ ? std::nullopt : column_number(column);
    const auto found = std::find(names.begin(), names.end(), column);
    const size_t at = number.value_or(static_cast<size_t>(found - names.begin()));
    if (at >= names.size()) {
      return error_at(text, row_, missing_column(column, names));
    }
    // Which of two columns of one name is meant cannot be known.
    if (!number && std::count(names.begin(), names.end(), column) > 1) {
      return error_at(text, row_, fmt::format("expected one column {}, found several", column));
    }
    layout.columns.push_back(at);
  }
  layout_ = std::move(layout);
  return Status();
}

void CsvScanner::take(std::string_view text, TextChunk& chunk) {
  RecordScanner::take(text, chunk);
  if (layout_) chunk.csv = *layout_;
  row_ = 0;
  state_ = State::kFieldBegin;
}

bool take_csv_field(std::optional<std::string_view>& rest, std::string_view& field) {
  if (!rest) return false;
  size_t end = 0;
  // Go up to the closing quote: quotes within a field are doubled.
  if (rest->starts_with('"')) {
    for (end = rest->find('"', 1); end != rest->npos && rest->substr(end).starts_with("\"\"");) {
      end = rest->find('"', end + 2);
    }
    end = std::min(end, rest->size());
  }
  // Go on after the closing quote. What stands between it and the comma is refused by
  // unquote_csv_field, with its place.
  end = std::min(rest->find(',', end), rest->size());
  field = rest->substr(0, end);
  if (end == rest->size()) {
    rest.reset();
  } else {
    rest->remove_prefix(end + 1);
  }
  return true;
}

Result<std::string_view> unquote_csv_field(std::string_view field, std::string& buffer) {
  if (!field.starts_with('"')) return field;
  const std::string_view inner = field.substr(1);
  buffer.clear();
  for (size_t begin = 0;;) {
    const size_t quote = inner.find('"', begin);
    const std::string_view behind = inner.substr(std::min(quote, inner.size() - 1) + 1);
    if (quote == inner.npos || (!behind.empty() && behind[0] != '"')) {
      return make_error(StatusCode::kCorruption,
                        "expected a comma or the row's end after a quoted field, found {}",
                        text::printable(behind.substr(0, 1)));
    }
    if (behind.empty()) {
      // The common case, without doubled quotes, needs no copy.
      if (begin == 0) return inner.substr(0, quote);
      buffer.append(inner, begin, quote - begin);
      return std::string_view(buffer);
    }
    buffer.append(inner, begin, quote + 1 - begin);
    begin = quote + 2;
  }
}

}  // namespace meg::preprocess
