#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/text/text_list.h"

namespace meg::text {

/// Maximum nesting depth of a JSON line. Python's own limit is its recursion limit, 1000 frames
/// minus those in use.
inline constexpr int kMaxJsonNesting = 1000;

/// Bytes of memory that a reader keeps between lines; memory for longer lines is freed.
inline constexpr size_t kKeptMemory = size_t{8} << 20;

/// Reads the texts of some keys out of JSON lines: plain code that follows Python 3.11's json.loads
/// step by step. The reference implementation of JsonLineParser's fast path, which also decides
/// about everything that the fast path does not accept.
///
/// Accepts what Python accepts: NaN, Infinity, -Infinity, duplicate keys (the last wins), lone
/// surrogates in values that are not requested; integers of any length (Python: 4300 digits).
/// Refuses what Python refuses, including bytes anywhere in the line that are not UTF-8. Mirrors
/// CPython Modules/_json.c: scan_once_unicode, scanstring_unicode.
class PythonJsonReader {
 public:
  explicit PythonJsonReader(std::vector<std::string> keys);

  /// Like JsonLineParser::parse, but does not need readable bytes after the line and does not keep
  /// it.
  Status read(std::string_view line);

  /// Like JsonLineParser::texts; valid until the next read().
  const TextList& texts(size_t key) const { return asked_[key].texts; }

 private:
  /// The value of a requested key in the line; if it occurs several times, the last.
  struct AskedValue {
    bool is_there = false;
    std::string problem;    // why the value cannot be used
    size_t problem_at = 0;  // its byte in the line, from 0
    TextList texts;
  };

  /// A string of the line without its escapes, at `unescaped_`.
  struct String {
    std::string_view text;
    size_t lone_surrogate = std::string_view::npos;  // where the line has the first one
  };

  // Each continues at at_; false after an error, which is in error_.
  bool read_line();
  bool read_members(int depth, bool is_outermost);
  bool read_elements(int depth);
  bool read_value(int depth);
  bool read_number();
  bool read_digits();
  bool read_literal(std::string_view literal);
  bool read_string(String& string);
  bool read_escape(String& string);
  bool read_hex4(unsigned& unit);
  bool read_asked_value(AskedValue& value);
  bool read_text(AskedValue& value);
  bool read_other(AskedValue& value, int depth, std::string_view found);

  void skip_space();

  bool next_is(char c) const { return at_ < line_.size() && line_[at_] == c; }

  bool take(char c);
  bool fail(size_t at, std::string_view expected);
  AskedValue* find_asked(std::string_view key);
  Status check_asked() const;
  void prepare_memory();

  std::vector<std::string> keys_;
  std::vector<AskedValue> asked_;        // of keys_, by index
  std::vector<std::string> other_keys_;  // the first few that are not asked for

  std::string_view line_;
  size_t at_ = 0;
  std::string unescaped_;  // reserved for the whole line, so that views into it stay
  Status error_;
};

}  // namespace meg::text
