#pragma once

#include <string>
#include <string_view>

namespace meg::text {

/// Writes JSON as Python's json.dumps(..., indent=4) does: one element a line, ASCII only, no final
/// newline. Bytes that are not UTF-8 are escaped as Python's file names have them (\udc80 and on).
class JsonText {
 public:
  /// Inside an object: the key of the value that comes next.
  void key(std::string_view name);

  void string(std::string_view text);
  void number(double value);

  void number(int64_t value) { literal(std::to_string(value)); }

  /// `true`, `null` and the like.
  void literal(std::string_view text);

  void begin_object() { begin('{'); }

  void end_object() { end('}'); }

  void begin_array() { begin('['); }

  void end_array() { end(']'); }

  const std::string& text() const { return text_; }

 private:
  void begin(char bracket);
  void end(char bracket);
  void before_value();
  void new_line();
  void append_string(std::string_view text);

  std::string text_;
  size_t depth_ = 0;
  bool first_ = true;     ///< The innermost brackets are still empty.
  bool has_key_ = false;  ///< The next value belongs to the key just written.
};

}  // namespace meg::text
