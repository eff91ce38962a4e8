#include "libmeg/text/json/fast_json.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "libmeg/text/ascii.h"
#include "libmeg/text/json/internal/string_escape.h"
#include "libmeg/text/json/python_json.h"
#include "libmeg/text/text_padding.h"

// One walk over the line without a tree: asked values are kept as views, all others are skipped by
// their grammar. `return false` never means an error. It means that PythonJsonReader must read the
// line again, be it to word the error or because the line is one that this reader leaves to it, so
// every doubt may be answered by false. What is taken must be what the other would give, byte for
// byte; a fuzzer holds them to it (docs/decisions/04-json-lines.md).
//
// Bounds: UTF-8 is checked once for the whole line, so that everything after that may look at
// single bytes. Looking ahead (at_[1], the digits of an escape, vectors of the kernels) may pass
// end_ by up to kTextPadding bytes, which are readable; nothing found there counts, as at_ is
// compared with end_ before it is trusted.

namespace meg::text {
namespace {

// A line of many MiB must not keep its memory through a file of short ones; the gap between growing
// (any need) and shrinking (half of kKeptMemory) keeps alternating lines from allocating each time.
constexpr size_t kLeastMemory = size_t{64} << 10;  // bytes

}  // namespace

FastJsonReader::FastJsonReader(std::vector<std::string> keys, InstructionSet set)
    : keys_(std::move(keys)), asked_(keys_.size()), kernels_(string_kernels(set)) {}

bool FastJsonReader::read(std::string_view line) {
  if (!simdjson::validate_utf8(line.data(), line.size())) return false;
  for (AskedValue& value : asked_) value.is_there = false;
  prepare_memory(line.size());
  begin_ = at_ = line.data();
  end_ = at_ + line.size();
  skip_space();
  if (!take('{') || !read_object()) return false;
  skip_space();
  return at_ == end_ && std::all_of(asked_.begin(), asked_.end(),
                                    [](const AskedValue& value) { return value.is_there; });
}

void FastJsonReader::prepare_memory(size_t bytes) {
  // An escape is longer than what it stands for, so all texts of a line fit the line's length; the
  // kernels write whole vectors beyond what they keep.
  const size_t wanted = bytes + 2 * kTextPadding;
  if (wanted > capacity_ || (capacity_ > kKeptMemory && wanted < kKeptMemory / 2)) {
    unescaped_.reset();
    capacity_ = std::max(wanted, kLeastMemory);
    unescaped_.reset(new char[capacity_]);
  }
  out_ = unescaped_.get();
}

/// Reads the rest of the line's object.
bool FastJsonReader::read_object() {
  skip_space();
  if (take('}')) return true;
  while (true) {
    if (!take('"')) return false;
    const char* key = at_;
    at_ = kernels_.find_special(at_, end_);
    // A key with an escape stops at its backslash, where take() fails: the strict reader compares
    // such keys.
    const std::string_view name(key, static_cast<size_t>(at_ - key));
    if (!take('"')) return false;
    skip_space();
    if (!take(':')) return false;
    skip_space();
    AskedValue* asked = find_asked(name);
    if (!(asked != nullptr ? read_asked_value(*asked) : skip_value(1))) return false;
    skip_space();
    if (take('}')) return true;
    if (!take(',')) return false;
    skip_space();
  }
}

bool FastJsonReader::read_asked_value(AskedValue& value) {
  value.is_there = true;
  // The last of equal keys counts, as in Python: what an earlier one gave is dropped.
  value.texts.restart(begin_, unescaped_.get());
  if (take('"')) return read_text(value);
  if (!take('[')) return false;
  value.texts.mark_list();
  skip_space();
  if (take(']')) return true;
  while (true) {
    if (!take('"') || !read_text(value)) return false;
    skip_space();
    if (take(']')) return true;
    if (!take(',')) return false;
    skip_space();
  }
}

/// Reads a string from the byte after its opening quote.
bool FastJsonReader::read_text(AskedValue& value) {
  const char* begin = at_;
  at_ = kernels_.find_special(at_, end_);
  if (at_ >= end_) return false;
  const auto plain = static_cast<size_t>(at_ - begin);
  // Most texts have no escape and are used in place, without a copy.
  if (*at_ != '\\') {
    value.texts.push_back(TextList::Place::kLine, {begin, plain});
    return take('"');
  }
  char* text = out_;
  std::memcpy(out_, begin, plain);
  out_ += plain;
  if (!kernels_.unescape(at_, end_, out_)) return false;
  value.texts.push_back(TextList::Place::kUnescaped, {text, static_cast<size_t>(out_ - text)});
  return take('"');
}

/// depth: of the container that holds the value.
bool FastJsonReader::skip_value(int depth) {
  if (at_ >= end_) return false;
  switch (*at_) {
    case '"':
      return skip_string();
    case '{':
      return skip_members(depth + 1);
    case '[':
      return skip_elements(depth + 1);
    case 'n':
      return skip_literal("null");
    case 't':
      return skip_literal("true");
    case 'f':
      return skip_literal("false");
    case 'N':
      return skip_literal("NaN");
    case 'I':
      return skip_literal("Infinity");
    default:
      return skip_number();
  }
}

/// depth: of the object itself.
bool FastJsonReader::skip_members(int depth) {
  if (depth > kMaxJsonNesting) return false;
  ++at_;
  skip_space();
  if (take('}')) return true;
  while (true) {
    if (at_ >= end_ || *at_ != '"' || !skip_string()) return false;
    skip_space();
    if (!take(':')) return false;
    skip_space();
    if (!skip_value(depth)) return false;
    skip_space();
    if (take('}')) return true;
    if (!take(',')) return false;
    skip_space();
  }
}

/// depth: of the list itself.
bool FastJsonReader::skip_elements(int depth) {
  if (depth > kMaxJsonNesting) return false;
  ++at_;
  skip_space();
  if (take(']')) return true;
  while (true) {
    if (!skip_value(depth)) return false;
    skip_space();
    if (take(']')) return true;
    if (!take(',')) return false;
    skip_space();
  }
}

bool FastJsonReader::skip_string() {
  ++at_;
  while (true) {
    at_ = kernels_.find_special(at_, end_);
    if (at_ >= end_) return false;
    if (*at_ != '\\') return take('"');
    // Lone surrogates pass: Python accepts them, and nobody reads this value.
    const bool is_valid = at_[1] == 'u' ? hex4(at_ + 2) >= 0 : simple_escape(at_[1]) != 0;
    if (!is_valid) return false;
    at_ += at_[1] == 'u' ? 6 : 2;
  }
}

bool FastJsonReader::skip_number() {
  if (take('-') && at_ < end_ && *at_ == 'I') return skip_literal("Infinity");
  if (!take('0') && !skip_digits()) return false;
  // Python's scanner would end the number before a point or an `e` that no digits follow, and then
  // fail at it: the line is wrong either way.
  if (take('.') && !skip_digits()) return false;
  if (!take('e') && !take('E')) return true;
  if (!take('+')) take('-');
  return skip_digits();
}

/// Skips at least one digit.
bool FastJsonReader::skip_digits() {
  const char* begin = at_;
  while (at_ < end_ && is_ascii_digit(*at_)) ++at_;
  return at_ > begin;
}

bool FastJsonReader::skip_literal(std::string_view literal) {
  if (static_cast<size_t>(end_ - at_) < literal.size()) return false;
  if (std::memcmp(at_, literal.data(), literal.size()) != 0) return false;
  at_ += literal.size();
  return true;
}

void FastJsonReader::skip_space() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
}

bool FastJsonReader::take(char c) {
  if (at_ >= end_ || *at_ != c) return false;
  ++at_;
  return true;
}

FastJsonReader::AskedValue* FastJsonReader::find_asked(std::string_view key) {
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  return found == keys_.end() ? nullptr : &asked_[static_cast<size_t>(found - keys_.begin())];
}

}  // namespace meg::text
