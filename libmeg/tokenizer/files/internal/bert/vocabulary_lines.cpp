#include "libmeg/tokenizer/files/internal/bert/vocabulary_lines.h"

#include <algorithm>

#include "libmeg/text/printable.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/json/internal/text_file.h"

namespace meg::tokenizer::wordpiece {

Result<VocabularyLines> VocabularyLines::parse(std::string_view text, const std::string& name) {
  MEG_RETURN_IF_ERROR(reject_empty_or_html(text, name, "a token a line"));
  const size_t invalid = text::find_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    return make_error(StatusCode::kCorruption, "{}: byte {}: expected UTF-8, found {}", name,
                      invalid, text::printable(text.substr(invalid, 4)));
  }
  VocabularyLines lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    const std::string token(text::python_strip(text.substr(at, end - at)));
    // Ids are numbers of lines: an empty line is a token as well, the empty one, and may come once.
    const auto id = static_cast<int32_t>(lines.tokens.size());
    if (token.size() != end - at && !lines.first_stripped_line) lines.first_stripped_line = id + 1;
    const auto [known, added] = lines.ids.emplace(token, id);
    if (!added) {
      return make_error(StatusCode::kCorruption, "{}: line {}: {} is also line {}", name, id + 1,
                        text::printable(token), known->second + 1);
    }
    lines.tokens.push_back(token);
    at = end + (text.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  return lines;
}

Status VocabularyLines::check_special_tokens(const std::string& name) const {
  for (const std::string_view token : {"[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"}) {
    if (ids.contains(std::string(token))) continue;
    return make_error(StatusCode::kCorruption, "{}: expected a line {}, found none in {} lines",
                      name, token, tokens.size());
  }
  return {};
}

std::vector<std::pair<std::string_view, int32_t>> VocabularyLines::entries() const {
  std::vector<std::pair<std::string_view, int32_t>> all;
  for (const std::string& token : tokens) all.emplace_back(token, static_cast<int32_t>(all.size()));
  return all;
}

int32_t VocabularyLines::add(const std::string& token) {
  const auto [known, added] = ids.emplace(token, static_cast<int32_t>(tokens.size()));
  if (added) tokens.push_back(token);
  return known->second;
}

}  // namespace meg::tokenizer::wordpiece
