#pragma once

#include <cstdint>
#include <string_view>

#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece {

/// Writes the ids of one text: pieces as they are, unknown characters as the ids of their bytes or,
/// without byte_fallback, a run of them as one unknown id.
template <class Id>
class IdWriter {
 public:
  /// out: has room for an id for each piece and for each byte of an unknown character.
  IdWriter(const Model& model, Id* out) : model_(model), out_(out) {}

  void piece(int32_t id) {
    *out_++ = static_cast<Id>(id);
    after_unknown_ = false;
  }

  /// text: one or several consecutive characters.
  void unknown(std::string_view text) {
    if (model_.file().byte_fallback) {
      for (const char byte : text) {
        *out_++ = static_cast<Id>(model_.byte_id(static_cast<unsigned char>(byte)));
      }
    } else if (!after_unknown_) {
      *out_++ = static_cast<Id>(*model_.file().unk_id);
    }
    after_unknown_ = true;
  }

  /// The place of the next id. Only ids of known pieces may be written there directly.
  Id* end() const { return out_; }

  void advance_to(Id* end) {
    out_ = end;
    after_unknown_ = false;
  }

 private:
  const Model& model_;
  Id* out_;
  bool after_unknown_ = false;
};

}  // namespace meg::tokenizer::sentencepiece
