#include "tools/common/flags/config_file.h"

#include <algorithm>
#include <istream>
#include <utility>

#include "libmeg/text/printable.h"
#include "tools/common/flags/flag_error.h"

// What TOML and INI files have in common, read strictly, as CLI11's own reader takes `"a#b"` for a
// comment, joins repeated keys and knows no line numbers (docs/decisions/03-command-lines.md).
// Sections, nested tables and what else TOML has are errors: a line that is not understood is never
// passed over.

namespace meg::tools {
namespace {

constexpr std::string_view kWhitespace = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(kWhitespace), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kWhitespace) + 1);
}

bool is_quote(char c) { return c == '"' || c == '\''; }

/// Past the closing quote of the text that begins with a quote; npos where there is none.
size_t end_of_quoted(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == text[0]) return i + 1;
    if (text[i] == '\\' && text[0] == '"') ++i;
  }
  return std::string_view::npos;
}

/// The first of `ends` outside quotes, or the text's size. A quote opens at the start of a word.
size_t find_unquoted(std::string_view text, std::string_view ends) {
  bool word_begins = true;
  for (size_t i = 0; i < text.size();) {
    if (word_begins && is_quote(text[i])) {
      const size_t length = end_of_quoted(text.substr(i));
      i = length == std::string_view::npos ? text.size() : i + length;
      word_begins = false;
      continue;
    }
    if (ends.find(text[i]) != std::string_view::npos) return i;
    word_begins = std::string_view(" \t=,[").find(text[i]) != std::string_view::npos;
    ++i;
  }
  return text.size();
}

/// A # inside a word, as in a path, begins no comment.
std::string_view without_comment(std::string_view line) {
  if (line.starts_with(';') || line.starts_with('#')) return {};
  for (size_t blank = 0; blank < line.size(); ++blank) {
    blank += find_unquoted(line.substr(blank), kWhitespace);
    if (line.substr(std::min(blank + 1, line.size())).starts_with('#')) {
      return trimmed(line.substr(0, blank));
    }
  }
  return line;
}

bool is_open_list(std::string_view value) {
  return value.starts_with('[') && find_unquoted(value, "]") == value.size();
}

/// The text in the quotes that surround all of `quoted`.
Result<std::string> unquoted(std::string_view quoted) {
  if (end_of_quoted(quoted) != quoted.size()) {
    return flag_error("expected a closing quote at the end, found {}", text::printable(quoted));
  }
  const std::string_view inside = quoted.substr(1, quoted.size() - 2);
  if (quoted[0] == '\'') return std::string(inside);
  std::string text;
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == '\\') {
      ++i;
      // There is a character: the closing quote is not an escaped one.
      if (inside[i] != '"' && inside[i] != '\\') {
        return flag_error("expected \\\" or \\\\, found \\{}", inside[i]);
      }
    }
    text += inside[i];
  }
  return text;
}

/// Entries as lines make them up.
class ConfigReader {
 public:
  explicit ConfigReader(std::istream& input) : input_(input) {}

  Result<std::vector<ConfigEntry>> read() {
    for (std::string text; next(text);) {
      if (text.empty()) continue;
      const int64_t line = line_;
      const Status status = add(line, text);
      if (!status.ok()) return status.with_prefix(std::to_string(line));
    }
    return std::move(entries_);
  }

 private:
  bool next(std::string& text) {
    std::string line;
    if (!std::getline(input_, line)) return false;
    ++line_;
    text = without_comment(trimmed(line));
    return true;
  }

  Status add(int64_t line, std::string_view text) {
    const size_t equals = text.find('=');
    if (text[0] == '[' || equals == std::string_view::npos) {
      return flag_error("expected key = value, found {}", text::printable(text));
    }
    ConfigEntry entry{line, std::string(trimmed(text.substr(0, equals))),
                      std::string(trimmed(text.substr(equals + 1)))};
    for (std::string more; is_open_list(entry.value);) {
      if (!next(more)) return flag_error("{}: expected ], found the end of the file", entry.key);
      entry.value += " " + more;
    }
    entries_.push_back(std::move(entry));
    return Status();
  }

  std::istream& input_;
  std::vector<ConfigEntry> entries_;
  int64_t line_ = 0;
};

}  // namespace

Result<std::vector<ConfigEntry>> read_config(std::istream& input) {
  return ConfigReader(input).read();
}

Result<std::string> config_text(std::string_view value) {
  if (!value.empty() && is_quote(value[0])) return unquoted(value);
  return std::string(value);
}

Result<std::vector<std::string>> config_list(std::string_view value) {
  const bool brackets = value.starts_with('[');
  if (brackets) {
    if (find_unquoted(value, "]") + 1 != value.size()) {
      return flag_error("expected one list in brackets, found {}", text::printable(value));
    }
    value = trimmed(value.substr(1, value.size() - 2));
  }
  std::vector<std::string> items;
  while (!value.empty()) {
    const size_t end = find_unquoted(value, brackets ? "," : kWhitespace);
    const std::string_view item = trimmed(value.substr(0, end));
    if (item.empty()) return flag_error("expected a value before each comma, found none");
    MEG_ASSIGN_OR_RETURN(std::string text, config_text(item));
    items.push_back(std::move(text));
    value = trimmed(value.substr(std::min(end + 1, value.size())));
  }
  return items;
}

}  // namespace meg::tools
