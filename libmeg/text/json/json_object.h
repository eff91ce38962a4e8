#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meg::text {

/// Goes through the members of a JSON object, which must be valid, as they are written.
class JsonMembers {
 public:
  /// object: with kTextPadding readable bytes after it.
  explicit JsonMembers(std::string_view object);

  /// False at the end.
  bool next();

  /// The key without its quotes and escapes; valid until next().
  std::string_view key() const { return key_; }

  /// The value's bytes, without whitespace around them.
  std::string_view value() const { return value_; }

 private:
  size_t end_of_value(size_t begin) const;
  void skip(std::string_view characters);

  std::string_view object_;
  size_t at_ = 0;
  std::string_view key_;
  std::string_view value_;
  std::string unescaped_;
};

/// The value of a key in a valid object, with kTextPadding readable bytes after it: as Python's
/// json has it, the last one; empty where the key is missing.
std::string_view find_json_value(std::string_view object, std::string_view key);

/// The text of a valid JSON string, given with its quotes and kTextPadding readable bytes after it;
/// `buffer` is used if it has escapes.
std::string_view json_string_text(std::string_view value, std::string& buffer);

/// Appends `text` as a JSON string: UTF-8, only what must be escaped is.
void append_json_string(std::string_view text, std::string& out);

}  // namespace meg::text
