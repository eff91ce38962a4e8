#include "libmeg/text/json/python_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libmeg/text/ascii.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"

// Recursive descent in the order of CPython's scanner, with its own limit of nesting instead of the
// stack's. Two kinds of errors are kept apart. What json.loads would refuse ends the reading at
// once (fail()). What it accepts but no document can be made of, such as a number under an asked
// key, is noted in AskedValue::problem and reported only once the whole line has turned out to be
// JSON, because a later value of the same key may replace it.

namespace meg::text {
namespace {

constexpr size_t kNamedKeys = 5;  // of a line that lacks an asked key

bool is_high_surrogate(unsigned unit) { return unit >= 0xd800 && unit < 0xdc00; }

bool is_low_surrogate(unsigned unit) { return unit >= 0xdc00 && unit < 0xe000; }

/// The value of a hexadecimal digit; -1 for any other character.
int hex_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The kind of value that begins with `c`, for messages.
std::string_view kind_of_value(char c) {
  if (c == '{') return "an object";
  if (c == '[') return "a list";
  if (c == '"') return "a string";
  if (c == 't' || c == 'f') return "a boolean";
  return c == 'n' ? "null" : "a number";
}

/// The names of keys for a message.
std::string list_of_keys(const std::vector<std::string>& keys) {
  if (keys.empty()) return "no other key";
  std::string list;
  for (const std::string& key : keys) {
    list += fmt::format("{}{}", &key == keys.data() ? "" : ", ", printable(key));
  }
  return keys.size() == kNamedKeys ? list + ", ..." : list;
}

}  // namespace

PythonJsonReader::PythonJsonReader(std::vector<std::string> keys)
    : keys_(std::move(keys)), asked_(keys_.size()) {}

Status PythonJsonReader::read(std::string_view line) {
  line_ = line;
  at_ = 0;
  error_ = Status();
  other_keys_.clear();
  for (AskedValue& value : asked_) value.is_there = false;
  prepare_memory();
  if (!read_line()) return error_;
  // Tokenizers read beyond a text's end; the room was reserved, so no view moves.
  unescaped_.append(kTextPadding, '\0');
  return check_asked();
}

void PythonJsonReader::prepare_memory() {
  if (unescaped_.capacity() > kKeptMemory && line_.size() < kKeptMemory / 2) {
    std::string().swap(unescaped_);
  }
  unescaped_.clear();
  unescaped_.reserve(line_.size() + kTextPadding);
}

Status PythonJsonReader::check_asked() const {
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (!asked_[i].is_there) {
      return make_error(StatusCode::kNotFound, "byte 1: key {} is missing: found {}",
                        printable(keys_[i]), list_of_keys(other_keys_));
    }
    if (asked_[i].problem.empty()) continue;
    return make_error(StatusCode::kCorruption, "byte {}: key {}: {}", asked_[i].problem_at + 1,
                      printable(keys_[i]), asked_[i].problem);
  }
  return Status();
}

bool PythonJsonReader::read_line() {
  // json.loads refuses a text that begins with one.
  if (line_.starts_with("\xef\xbb\xbf")) {
    error_ = make_error(StatusCode::kCorruption,
                        "byte 1: expected a JSON object, found a byte order mark (UTF-8 BOM)");
    return false;
  }
  // Megatron opens its input as UTF-8 text, so bytes that are none end the run there even in values
  // that nobody asks for.
  const size_t invalid = find_invalid_utf8(line_);
  if (invalid < line_.size()) return fail(invalid, "UTF-8");
  skip_space();
  if (!next_is('{')) return fail(at_, "a JSON object");
  if (!read_members(1, true)) return false;
  skip_space();
  return at_ == line_.size() || fail(at_, "the end of the line after the object");
}

/// Reads an object. is_outermost: the line's own, which may have asked keys.
bool PythonJsonReader::read_members(int depth, bool is_outermost) {
  if (depth > kMaxJsonNesting) {
    return fail(at_, fmt::format("at most {} nested values", kMaxJsonNesting));
  }
  ++at_;
  skip_space();
  if (take('}')) return true;
  while (true) {
    if (!next_is('"')) return fail(at_, "a key in double quotes");
    String key;
    if (!read_string(key)) return false;
    AskedValue* asked = is_outermost ? find_asked(key.text) : nullptr;
    skip_space();
    if (!take(':')) return fail(at_, "\":\" after a key");
    skip_space();
    if (!(asked != nullptr ? read_asked_value(*asked) : read_value(depth))) return false;
    skip_space();
    if (take('}')) return true;
    if (!take(',')) return fail(at_, "\",\" or \"}\" in an object");
    skip_space();
  }
}

bool PythonJsonReader::read_elements(int depth) {
  if (depth > kMaxJsonNesting) {
    return fail(at_, fmt::format("at most {} nested values", kMaxJsonNesting));
  }
  ++at_;
  skip_space();
  if (take(']')) return true;
  while (true) {
    if (!read_value(depth)) return false;
    skip_space();
    if (take(']')) return true;
    if (!take(',')) return fail(at_, "\",\" or \"]\" in a list");
    skip_space();
  }
}

/// depth: of the container that holds the value.
bool PythonJsonReader::read_value(int depth) {
  if (at_ == line_.size()) return fail(at_, "a value");
  switch (line_[at_]) {
    case '"': {
      String string;
      return read_string(string);
    }
    case '{':
      return read_members(depth + 1, false);
    case '[':
      return read_elements(depth + 1);
    case 'n':
      return read_literal("null");
    case 't':
      return read_literal("true");
    case 'f':
      return read_literal("false");
    case 'N':
      return read_literal("NaN");
    case 'I':
      return read_literal("Infinity");
    default:
      return read_number();
  }
}

bool PythonJsonReader::read_literal(std::string_view literal) {
  if (!line_.substr(at_).starts_with(literal)) return fail(at_, "a value");
  at_ += literal.size();
  return true;
}

bool PythonJsonReader::read_number() {
  const size_t begin = at_;
  take('-');
  if (next_is('I')) return read_literal("Infinity");
  if (!take('0') && !read_digits()) return fail(begin, "a value");
  // CPython ends the number before a point or an `e` without digits and fails at it a moment later:
  // the same lines are refused.
  if (take('.') && !read_digits()) return fail(at_, "a digit after the decimal point");
  if (!take('e') && !take('E')) return true;
  if (!take('+')) take('-');
  return read_digits() || fail(at_, "a digit in the exponent of a number");
}

/// Reads at least one digit.
bool PythonJsonReader::read_digits() {
  const size_t begin = at_;
  while (at_ < line_.size() && is_ascii_digit(line_[at_])) ++at_;
  return at_ > begin;
}

bool PythonJsonReader::read_string(String& string) {
  const size_t begin = unescaped_.size();
  ++at_;
  while (at_ < line_.size() && line_[at_] != '"') {
    // json.loads is strict by default; JSON itself forbids them as well.
    if (static_cast<unsigned char>(line_[at_]) < 0x20) {
      return fail(at_, "no control character inside a string");
    }
    if (line_[at_] != '\\') {
      unescaped_ += line_[at_++];
    } else if (!read_escape(string)) {
      return false;
    }
  }
  if (!take('"')) return fail(at_, "the closing \" of a string");
  string.text = std::string_view(unescaped_).substr(begin);
  return true;
}

bool PythonJsonReader::read_escape(String& string) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const size_t begin = at_;
  ++at_;
  const size_t letter = at_ < line_.size() ? kLetters.find(line_[at_]) : std::string_view::npos;
  if (letter != std::string_view::npos) {
    unescaped_ += kMeanings[letter];
    ++at_;
    return true;
  }
  if (!take('u')) return fail(begin, "a valid JSON escape");
  unsigned unit = 0;
  if (!read_hex4(unit)) return false;
  // A high surrogate takes the escape that follows it only if that is a low one. Else the second
  // escape is read again by itself: it may begin a pair of its own.
  const size_t after = at_;
  unsigned low = 0;
  if (is_high_surrogate(unit) && line_.substr(at_).starts_with("\\u")) {
    at_ += 2;
    if (!read_hex4(low)) return false;
  }
  if (is_low_surrogate(low)) {
    append_code_point(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), unescaped_);
    return true;
  }
  at_ = after;
  if (is_high_surrogate(unit) || is_low_surrogate(unit)) {
    // No error yet: Python holds it in a str, and only encoding that as UTF-8 would fail.
    string.lone_surrogate = std::min(string.lone_surrogate, begin);
  }
  append_code_point(unit, unescaped_);
  return true;
}

bool PythonJsonReader::read_hex4(unsigned& unit) {
  for (int i = 0; i < 4; ++i, ++at_) {
    const int digit = at_ < line_.size() ? hex_value(line_[at_]) : -1;
    if (digit < 0) return fail(at_, "a hexadecimal digit");
    unit = unit << 4 | static_cast<unsigned>(digit);
  }
  return true;
}

bool PythonJsonReader::read_asked_value(AskedValue& value) {
  // A repeated key: the last value counts, and with it the last problem.
  value.problem.clear();
  value.is_there = true;
  value.texts.restart(line_.data(), unescaped_.data());
  if (next_is('"')) return read_text(value);
  if (!next_is('[')) return read_other(value, 1, "");
  ++at_;
  value.texts.mark_list();
  skip_space();
  if (take(']')) return true;
  while (true) {
    const bool is_text = next_is('"');
    if (!(is_text ? read_text(value) : read_other(value, 2, "a list with "))) return false;
    skip_space();
    if (take(']')) return true;
    if (!take(',')) return fail(at_, "\",\" or \"]\" in a list");
    skip_space();
  }
}

bool PythonJsonReader::read_text(AskedValue& value) {
  String string;
  if (!read_string(string)) return false;
  value.texts.push_back(TextList::Place::kUnescaped, string.text);
  if (string.lone_surrogate != std::string_view::npos && value.problem.empty()) {
    value.problem = fmt::format("expected text that UTF-8 can hold, found half a pair: {}",
                                printable(line_.substr(string.lone_surrogate, 6)));
    value.problem_at = string.lone_surrogate;
  }
  return true;
}

/// Reads a value that an asked key must not have. depth: of the container that holds it.
bool PythonJsonReader::read_other(AskedValue& value, int depth, std::string_view found) {
  if (value.problem.empty() && at_ < line_.size()) {
    value.problem = fmt::format("expected a string or a list of strings, found {}{}", found,
                                kind_of_value(line_[at_]));
    value.problem_at = at_;
  }
  return read_value(depth);
}

void PythonJsonReader::skip_space() {
  constexpr std::string_view kSpace = " \t\n\r";
  while (at_ < line_.size() && kSpace.find(line_[at_]) != std::string_view::npos) ++at_;
}

bool PythonJsonReader::take(char c) {
  if (!next_is(c)) return false;
  ++at_;
  return true;
}

bool PythonJsonReader::fail(size_t at, std::string_view expected) {
  constexpr size_t kShown = 10;  // bytes
  const std::string found =
      at < line_.size() ? printable(line_.substr(at), kShown) : "the end of the line";
  // Most likely an object that goes on in the next lines.
  const bool is_open = at == line_.size() && !line_.empty();
  error_ = make_error(StatusCode::kCorruption, "byte {}: expected {}, found {}{}", at + 1, expected,
                      found, is_open ? " (JSON lines: one object a line)" : "");
  return false;
}

PythonJsonReader::AskedValue* PythonJsonReader::find_asked(std::string_view key) {
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  if (found != keys_.end()) return &asked_[static_cast<size_t>(found - keys_.begin())];
  if (other_keys_.size() < kNamedKeys) other_keys_.emplace_back(key);
  return nullptr;
}

}  // namespace meg::text
