#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/text/text_list.h"
#include "libmeg/text/text_padding.h"

namespace meg::preprocess {

/// Extracts the texts of some keys from JSON lines, by the rules of Python's json.loads (see
/// python_json.h). The line must be an object; every requested key must exist; its value must be a
/// string or a list of strings (one sequence each; none for an empty list). One parser belongs to
/// one thread.
class JsonLineParser {
 public:
  /// keys: each once.
  explicit JsonLineParser(std::vector<std::string> keys);
  JsonLineParser(JsonLineParser&&) noexcept;
  JsonLineParser& operator=(JsonLineParser&&) noexcept;
  ~JsonLineParser();

  /// line: one line, not blank, without its line end, with kTextPadding readable bytes after it.
  /// The bytes are not changed. Memory beside the line: up to twice its length.
  /// Errors (kCorruption, and kNotFound for a missing key) say the byte in the line:
  /// `byte 17: expected ..., found ...` (from 1).
  Status parse(std::string_view line);

  /// The sequences of keys[key] in the line parsed last. Valid UTF-8 with kTextPadding readable
  /// bytes after each; valid until the next parse() and as long as the line's bytes are.
  const text::TextList& texts(size_t key) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meg::preprocess
