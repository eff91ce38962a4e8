#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/json/internal/json_part.h"

namespace meg::tokenizer {

/// A normalizer of a tokenizer.json. Immutable and safe to share.
/// Mirrors Hugging Face tokenizers, normalizers/.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// text: valid UTF-8, before and after. front: the number of bytes at the beginning that stem
  /// from the first character of the text before all normalizers, which `tokenizers` keeps track
  /// of; updated. Errors: those of RegexMatcher::find().
  virtual Status apply(std::string& text, size_t& front) const = 0;

  Status apply(std::string& text) const {
    size_t front = 0;
    return apply(text, front);
  }

  /// Whether apply() certainly leaves text unchanged; fast, and false if that is not known.
  virtual bool keeps(std::string_view text) const {
    static_cast<void>(text);
    return false;
  }
};

/// text: valid UTF-8.
size_t count_characters(std::string_view text);

/// Bytes of the first `count` characters of text, or of all if it has fewer.
size_t size_of_characters(std::string_view text, size_t count);

/// Reads the part "normalizer". kUnsupported, by name, for a kind that libmeg lacks.
Result<std::unique_ptr<Normalizer>> read_normalizer(const JsonPart& part);

}  // namespace meg::tokenizer
