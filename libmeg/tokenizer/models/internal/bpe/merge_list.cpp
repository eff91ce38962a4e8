#include "libmeg/tokenizer/models/internal/bpe/merge_list.h"

#include <simdjson.h>

#include <algorithm>

#include "libmeg/text/printable.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/json/internal/text_file.h"

namespace meg::tokenizer {

namespace {

/// Bytes of the whitespace (Python's str.isspace) at the start of text; 0 where there is none.
size_t space_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return text::is_python_space(first) ? 1 : 0;
  // Whitespace past ASCII begins with one of these bytes; most characters do not.
  if (first != 0xC2 && first != 0xE1 && first != 0xE2 && first != 0xE3) return 0;
  const text::DecodedCodePoint found = text::decode_code_point(text);
  return text::is_python_space(found.code_point) ? found.size : 0;
}

/// Takes the next line and its end off the front of text; false where no line end is left.
bool take_line(std::string_view& text, std::string_view& line) {
  // Python's universal newlines: LF, CRLF and CR alone.
  const size_t end = text.find_first_of("\r\n");
  if (end == std::string_view::npos) return false;
  line = text.substr(0, end);
  text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
  return true;
}

Status require_utf8(std::string_view text, const std::string& name) {
  if (simdjson::validate_utf8(text.data(), text.size())) return {};
  const size_t at = text::find_invalid_utf8(text);
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  return make_error(StatusCode::kCorruption, "{}: line {}: byte {}: expected UTF-8, found {}", name,
                    line, at, text::printable(text.substr(at, 4)));
}

}  // namespace

int split_pieces(std::string_view line, std::string_view pieces[2]) {
  int count = 0;
  size_t start = 0;
  const auto end_piece = [&](size_t end) {
    if (end == start) return;
    if (count < 2) pieces[count] = line.substr(start, end - start);
    ++count;
  };
  for (size_t at = 0; at < line.size();) {
    const size_t space = space_size(line.substr(at));
    if (space > 0) {
      end_piece(at);
      start = at + space;
    }
    at += std::max<size_t>(space, 1);
  }
  end_piece(line.size());
  return count;
}

Result<MergeList> parse_merge_list(std::string_view text, const std::string& name) {
  text = without_byte_order_mark(text);
  MEG_RETURN_IF_ERROR(reject_empty_or_html(text, name, "\"#version\" or a merge"));
  MEG_RETURN_IF_ERROR(require_utf8(text, name));
  MergeList list;
  list.pairs.reserve(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')));
  std::string_view line;
  // A single line would be the header alone, and every byte its own token.
  if (text.find_first_of("\r\n") == std::string_view::npos) {
    return make_error(StatusCode::kCorruption, "{}: expected lines, found no line end: {}", name,
                      text::printable(text));
  }
  for (int64_t number = 1; take_line(text, line); ++number) {
    // GPT2Tokenizer drops the first line and what follows the last line end without a look,
    // "#version" or not; builder.add_merges() warns where a merge is lost by that.
    if (number == 1) {
      list.header = line;
      continue;
    }
    std::string_view pieces[2];
    const int count = split_pieces(line, pieces);
    if (count == 0) continue;
    if (count != 2) {
      return make_error(StatusCode::kCorruption, "{}: line {}: expected two pieces, found {}: {}",
                        name, number, count, text::printable(line));
    }
    list.pairs.push_back({pieces[0], pieces[1], number});
  }
  list.dropped_tail = text;
  return list;
}

}  // namespace meg::tokenizer
