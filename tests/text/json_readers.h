#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/text/json/fast_json.h"
#include "libmeg/text/json/python_json.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::test {

/// A line alone in its memory, with just the bytes after it that parsers may read, so that the
/// address sanitizer sees every step too far.
class PaddedLine {
 public:
  explicit PaddedLine(std::string_view line, char padding = '\0')
      : bytes_(new char[line.size() + text::kTextPadding]), size_(line.size()) {
    std::copy(line.begin(), line.end(), bytes_.get());
    std::fill_n(bytes_.get() + size_, text::kTextPadding, padding);
  }

  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

/// The instruction sets that this processor runs.
inline std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const auto set :
       {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= best_instruction_set()) sets.push_back(set);
  }
  return sets;
}

/// Reads the bytes that must be readable after a text.
inline unsigned touch_padding(std::string_view text) {
  unsigned sum = 0;
  for (size_t i = 0; i < text::kTextPadding; ++i) {
    sum += static_cast<unsigned char>(*(text.data() + text.size() + i));
  }
  return sum;
}

/// What the fast reader of `set` and the strict one say differently about `line`; empty where they
/// agree. (The fast one may leave any line to the other.)
inline std::string difference_of_readers(std::string_view line, InstructionSet set, char padding) {
  const std::vector<std::string> keys{"text", "b"};
  const PaddedLine padded(line, padding);
  text::FastJsonReader fast(keys, set);
  if (!fast.read(padded.view())) return "";
  text::PythonJsonReader strict(keys);
  const Status status = strict.read(line);
  const std::string where =
      fmt::format("{}: line {}: ", instruction_set_name(set), text::printable(line, 2000));
  if (!status.ok()) return where + "taken by the fast reader only: " + status.message();
  for (size_t key = 0; key < keys.size(); ++key) {
    const text::TextList& expected = strict.texts(key);
    const text::TextList& found = fast.texts(key);
    if (!std::equal(expected.begin(), expected.end(), found.begin(), found.end())) {
      return where + "different texts of " + keys[key];
    }
    volatile unsigned sum = 0;
    for (const std::string_view text : found) sum = sum + touch_padding(text);
    for (const std::string_view text : expected) sum = sum + touch_padding(text);
  }
  return "";
}

}  // namespace meg::test
