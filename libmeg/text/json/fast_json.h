#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/text/json/string_kernels.h"
#include "libmeg/text/text_list.h"

namespace meg::text {

/// Reads the texts of some keys out of ordinary JSON lines: PythonJsonReader is its reference
/// implementation.
/// If it accepts a line, it returns the same texts; it leaves errors, and lines with escapes in
/// keys, to the reference.
class FastJsonReader {
 public:
  explicit FastJsonReader(std::vector<std::string> keys,
                          InstructionSet set = best_instruction_set());

  /// Like JsonLineParser::parse. False if the strict reader must decide.
  bool read(std::string_view line);

  /// Like JsonLineParser::texts: views into the line, or into memory of the reader.
  const TextList& texts(size_t key) const { return asked_[key].texts; }

 private:
  struct AskedValue {
    bool is_there = false;
    TextList texts;
  };

  // Each continues reading at at_; false if the strict reader must decide.
  bool read_object();
  bool read_asked_value(AskedValue& value);
  bool read_text(AskedValue& value);
  bool skip_value(int depth);
  bool skip_members(int depth);
  bool skip_elements(int depth);
  bool skip_string();
  bool skip_number();
  bool skip_digits();
  bool skip_literal(std::string_view literal);

  void skip_space();
  bool take(char c);
  AskedValue* find_asked(std::string_view key);
  void prepare_memory(size_t bytes);

  std::vector<std::string> keys_;
  std::vector<AskedValue> asked_;  // of keys_, by index
  const StringKernels& kernels_;

  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::unique_ptr<char[]> unescaped_;  // room for all of a line's texts without their escapes
  size_t capacity_ = 0;
  char* out_ = nullptr;  // where the next text goes
};

}  // namespace meg::text
