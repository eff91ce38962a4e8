#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/sentencepiece/fast/space_form.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"
#include "libmeg/tokenizer/words/internal/copy_plain.h"
#include "libmeg/tokenizer/words/internal/plain_characters.h"

namespace meg::tokenizer::sentencepiece::fast {

using tokenizer::fast::PlainCharacters;

/// The characters of a text that the model's normalizing leaves as they are.
PlainCharacters plain_characters(const Model& model);

/// Normalizes texts as reference::normalize, into SpaceForm. Belongs to one thread; the model and
/// its plain characters must outlive it.
class TextNormalizer {
 public:
  TextNormalizer(const Model& model, const PlainCharacters& plain);

  /// The normalized text. Both have text::kTextPadding readable bytes after them; the first after
  /// the result is a space. Valid until the next call.
  std::string_view normalize(std::string_view text);

 private:
  NormalizingStep step(std::string_view text) const;
  std::string_view without_leading_spaces(std::string_view text) const;
  void make_room(size_t bytes);

  void put(char byte) { *out_++ = byte; }

  void put(std::string_view normalized);
  void normalize_rest(std::string_view text);
  void put_step(const NormalizingStep& step);

  const Model& model_;
  const NormalizerSpec& spec_;
  const SpaceForm form_;
  const PlainCharacters& plain_;
  const tokenizer::fast::CopyPlain copy_plain_;
  const bool identity_;  // no byte is changed but spaces
  std::vector<char> buffer_;
  char* out_ = nullptr;
  bool after_space_ = false;  // where extra spaces are removed
};

}  // namespace meg::tokenizer::sentencepiece::fast
