#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece::fast {

/// The form in which the fast encoders keep normalized texts and pieces: with escape_whitespaces a
/// normalized text holds no space, so a space can stand for U+2581, in one byte instead of three.
class SpaceForm {
 public:
  explicit SpaceForm(bool escaped) : escaped_(escaped) {}

  bool escaped() const { return escaped_; }

  /// A piece in this form; nullopt if no normalized text can contain it.
  std::optional<std::string> of_piece(std::string_view piece) const {
    std::string form(piece);
    if (!escaped_) return form;
    if (form.find(' ') != std::string::npos) return std::nullopt;
    for (size_t at = 0; (at = form.find(kSpaceSymbol, at)) != std::string::npos; ++at) {
      form.replace(at, kSpaceSymbol.size(), " ");
    }
    return form;
  }

  /// The normalized bytes of a text of this form.
  std::string normalized(std::string_view form) const {
    std::string text;
    for (const char byte : form) {
      if (escaped_ && byte == ' ') {
        text += kSpaceSymbol;
      } else {
        text += byte;
      }
    }
    return text;
  }

 private:
  bool escaped_;
};

}  // namespace meg::tokenizer::sentencepiece::fast
