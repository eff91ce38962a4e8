#include "libmeg/tokenizer/words/internal/first_bytes.h"

#include <algorithm>

namespace meg::tokenizer {

void FirstBytes::add(char byte) {
  bool& has = has_[static_cast<unsigned char>(byte)];
  if (!has) bytes_.push_back(byte);
  has = true;
}

size_t FirstByteSearch::next(size_t at) {
  if (bytes_.bytes_.size() > kFew) {
    while (at < text_.size() && !bytes_.has_[static_cast<unsigned char>(text_[at])]) ++at;
    return at < text_.size() ? at : std::string_view::npos;
  }
  size_t nearest = std::string_view::npos;
  for (size_t i = 0; i < bytes_.bytes_.size(); ++i) {
    if (!has_places_ || places_[i] < at) places_[i] = text_.find(bytes_.bytes_[i], at);
    nearest = std::min(nearest, places_[i]);
  }
  has_places_ = true;
  return nearest;
}

}  // namespace meg::tokenizer
