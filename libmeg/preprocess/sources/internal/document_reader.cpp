#include "libmeg/preprocess/sources/internal/document_reader.h"

#include <algorithm>
#include <optional>

#include "libmeg/preprocess/sources/internal/csv_scanner.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"

namespace meg::preprocess {

DocumentReader::DocumentReader(const std::vector<std::string>& keys)
    : json_(keys), buffers_(keys.size()), texts_(keys.size()) {}

Status DocumentReader::read(std::string_view document, size_t record, const TextChunk& chunk) {
  is_json_ =
      chunk.format == RecordFormat::kJsonLines || chunk.format == RecordFormat::kJsonElements;
  if (is_json_) return json_.parse(document);
  if (chunk.format == RecordFormat::kCsvRows) return read_row(document, chunk.csv);
  if (chunk.format == RecordFormat::kRows) return read_values(chunk, record);
  return take_text(0, document, 0);
}

const text::TextList& DocumentReader::texts(size_t key) const {
  return is_json_ ? json_.texts(key) : texts_[key];
}

Status DocumentReader::read_row(std::string_view row, const CsvLayout& layout) {
  std::optional<std::string_view> rest = row;
  std::string_view field;
  size_t fields = 0;
  for (; take_csv_field(rest, field); ++fields) {
    const auto place = static_cast<size_t>(field.data() - row.data());
    for (size_t key = 0; key < layout.columns.size(); ++key) {
      // A column may be asked for by several keys; other fields are not unquoted.
      if (layout.columns[key] != fields) continue;
      const Result<std::string_view> text = unquote_csv_field(field, buffers_[key]);
      if (!text.has_value()) {
        return text.error().with_prefix(fmt::format("byte {}", place + 1));
      }
      MEG_RETURN_IF_ERROR(take_text(key, *text, place));
    }
  }
  // A row of another width is most often one whose quotes are wrong: its fields cannot be trusted.
  if (fields == layout.field_count) return Status();
  return make_error(StatusCode::kCorruption,
                    "byte 1: expected {} fields as in the first row, found {}", layout.field_count,
                    fields);
}

/// The texts of a row of columns.
Status DocumentReader::read_values(const TextChunk& chunk, size_t record) {
  for (size_t key = 0; key < texts_.size(); ++key) {
    const RowValue& value = chunk.rows.values[record * texts_.size() + key];
    if (value.kind == RowValue::Kind::kNull || value.kind == RowValue::Kind::kListWithNull) {
      return make_error(StatusCode::kCorruption,
                        "expected a string or a list of strings, found {}null",
                        value.kind == RowValue::Kind::kNull ? "" : "a list with ");
    }
    text::TextList& texts = texts_[key];
    texts.restart(chunk.lines.data(), chunk.lines.data());
    if (value.kind == RowValue::Kind::kList) texts.mark_list();
    for (size_t i = value.first; i < value.first + value.count; ++i) {
      const RowTexts::Text& at = chunk.rows.texts[i];
      const std::string_view text = chunk.lines.substr(at.begin, at.size);
      MEG_RETURN_IF_ERROR(check_utf8(text, 0));
      texts.push_back(text::TextList::Place::kLine, text);
    }
  }
  return Status();
}

// JSON readers check their texts themselves; Arrow does not check what files say is UTF-8.
Status DocumentReader::check_utf8(std::string_view text, size_t place) const {
  const size_t invalid = text::find_invalid_utf8(text);
  if (invalid == text.npos) return Status();
  return make_error(StatusCode::kCorruption, "byte {}: expected UTF-8, found {}",
                    place + invalid + 1, text::printable(text.substr(invalid, 1)));
}

/// place: of the text in its document, about.
Status DocumentReader::take_text(size_t key, std::string_view text, size_t place) {
  MEG_RETURN_IF_ERROR(check_utf8(text, place));
  std::string& buffer = buffers_[key];
  // The unquoted copy ends with the string: padding is added after it, without being part of the
  // text.
  if (text.data() == buffer.data()) {  // The tokenizers look a little past a text.
    const size_t size = text.size();
    buffer.resize(size + text::kTextPadding);
    text = std::string_view(buffer).substr(0, size);
  }
  texts_[key].restart(text.data(), text.data());
  texts_[key].push_back(text::TextList::Place::kLine, text);
  return Status();
}

}  // namespace meg::preprocess
