#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/huggingface/internal/json_part.h"

namespace meg::tokenizer {

/// A normalizer of a tokenizer.json. Immutable and safe to share.
/// Mirrors Hugging Face tokenizers, normalizers/.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// text: valid UTF-8, before and after. front_gone: becomes true where nothing is left of its
  /// first character, as far as tokenizers keep track of that. Errors: RegexMatcher::find's.
  virtual Status apply(std::string& text, bool& front_gone) const = 0;

  Status apply(std::string& text) const {
    bool front_gone = false;
    return apply(text, front_gone);
  }

  /// Whether apply() surely leaves text as it is; quick, and false where it is not known.
  virtual bool keeps(std::string_view text) const {
    static_cast<void>(text);
    return false;
  }
};

/// Reads the part "normalizer". kUnsupported, by name, for a kind that libmeg lacks.
Result<std::unique_ptr<Normalizer>> read_normalizer(const JsonPart& part);

}  // namespace meg::tokenizer
