#include "libmeg/cleaning/internal/text_pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "libmeg/cleaning/internal/output.h"
#include "libmeg/text/json/json_object.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/whitespace.h"

namespace meg::cleaning {
namespace {

/// Calls take(gap, piece) of each piece that stays, with the bytes that stand before it.
template <class Take>
void for_kept_pieces(std::span<const TextPiece> pieces, Take take) {
  bool is_first = true;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].is_removed) continue;
    take(is_first ? pieces[i].begin : pieces[i - 1].end, pieces[i].end);
    is_first = false;
  }
}

}  // namespace

void split_text(std::string_view text, DuplicateUnit unit, std::vector<TextPiece>& pieces) {
  const std::string_view separator = unit == DuplicateUnit::kLine ? "\n" : "\n\n";
  for (size_t begin = 0;;) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    const std::string_view bytes = text.substr(begin, end - begin);
    TextPiece piece{.begin = begin, .end = end, .digest = {}};
    piece.is_blank = text::trimmed(bytes).empty();
    if (!piece.is_blank) piece.digest = text_digest(bytes);
    pieces.push_back(piece);
    if (end == text.size()) return;
    begin = end + 1;
    if (unit == DuplicateUnit::kParagraph) {
      begin = std::min(text.find_first_not_of('\n', end), text.size());
    }
  }
}

int64_t kept_piece_bytes(std::span<const TextPiece> pieces) {
  size_t bytes = 0;
  for_kept_pieces(pieces, [&](size_t begin, size_t end) { bytes += end - begin; });
  return static_cast<int64_t>(bytes);
}

void append_kept_pieces(std::string_view text, std::span<const TextPiece> pieces,
                        std::string& out) {
  for_kept_pieces(pieces,
                  [&](size_t begin, size_t end) { out += text.substr(begin, end - begin); });
}

std::string_view LineEditor::text_of(std::string_view line) {
  is_json_ = !is_txt(options_);
  if (!is_json_) return line.substr(0, line.size() - 1);
  return text::json_string_text(find_value(line, options_.json_keys.front()), buffer_);
}

std::string_view LineEditor::find_value(std::string_view line, std::string_view key) {
  line_.assign(line).append(text::kTextPadding, '\0');
  size_ = line.size();
  const std::string_view value =
      text::find_json_value(std::string_view(line_).substr(0, size_), key);
  begin_ = value.empty() ? line.rfind('}') : static_cast<size_t>(value.data() - line_.data());
  end_ = begin_ + value.size();
  return value;
}

void LineEditor::append_line(std::string_view text, std::string& out) const {
  if (!is_json_) {
    out.append(text) += '\n';
    return;
  }
  out.append(line_, 0, begin_);
  text::append_json_string(text, out);
  out.append(line_, end_, size_ - end_);
}

void LineEditor::append_with_id(std::string_view line, int64_t number, std::string& out) {
  const bool is_new = find_value(line, "adlr_id").empty();
  out.append(line_, 0, begin_);
  if (is_new) out += ", \"adlr_id\": ";
  text::append_json_string(fmt::format("{}-{:010}", *options_.id_prefix, number), out);
  out.append(line_, end_, size_ - end_);
}

}  // namespace meg::cleaning
