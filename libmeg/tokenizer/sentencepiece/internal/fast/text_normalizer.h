#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/sentencepiece/internal/fast/space_form.h"
#include "libmeg/tokenizer/sentencepiece/internal/model.h"

namespace meg::tokenizer::sentencepiece::fast {

/// Normalizes texts as reference::normalize, into SpaceForm. Belongs to one thread; the model must
/// outlive it.
class TextNormalizer {
 public:
  explicit TextNormalizer(const Model& model);

  /// The normalized text, with text::kTextPadding readable bytes after it, the first of which is a
  /// space. Valid until the next call.
  std::string_view normalize(std::string_view text);

 private:
  enum class ByteClass : uint8_t { kLookUp, kPlain, kSpace };

  NormalizingStep step(std::string_view text) const;
  std::string_view without_leading_spaces(std::string_view text) const;
  void make_room(size_t bytes);

  void put(char byte) { *out_++ = byte; }

  void put(std::string_view normalized);
  void normalize_rest(std::string_view text);
  const char* put_plain(const char* at, const char* end);
  const char* put_eights(const char* at, const char* end);
  void put_step(const NormalizingStep& step);

  const Model& model_;
  const NormalizerSpec& spec_;
  const SpaceForm form_;
  const bool identity_;                 // no byte is changed but spaces
  std::array<ByteClass, 256> classes_;  // before an ASCII character or the end
  bool graphic_is_plain_ = true;        // all ASCII characters from space to tilde
  std::vector<char> buffer_;
  char* out_ = nullptr;
  bool after_space_ = false;  // where extra spaces are removed
};

}  // namespace meg::tokenizer::sentencepiece::fast
