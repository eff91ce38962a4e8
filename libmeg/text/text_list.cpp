#include "libmeg/text/text_list.h"

namespace meg::text {
namespace {

constexpr size_t kKeptBytes = size_t{1} << 20;  // of codes, from line to line

/// Takes a number off its code of seven bits a byte, the lowest first.
uint64_t take_number(const uint8_t*& at) {
  uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const uint8_t byte = *at++;
    number |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return number;
  }
}

}  // namespace

void TextList::Iterator::decode() {
  if (at_ == end_) return;
  next_ = at_;
  const uint64_t number = take_number(next_);
  const char*& behind = behind_[number % 2];
  const char* begin = behind + number / 2;
  text_ = {begin, take_number(next_)};
  behind = begin + text_.size();
}

void TextList::restart(const char* line, const char* unescaped) {
  places_ = behind_ = {line, unescaped};
  if (codes_.capacity() > kKeptBytes) std::vector<uint8_t>().swap(codes_);
  codes_.clear();
  size_ = 0;
  is_list_ = false;
}

void TextList::push_back(Place place, std::string_view text) {
  const auto which = static_cast<size_t>(place);
  const auto distance = static_cast<uint64_t>(text.data() - behind_[which]);
  // Texts of one place never go back, so the distance is not negative; the lowest bit says the
  // place.
  append_number(distance * 2 + which);
  append_number(text.size());
  behind_[which] = text.data() + text.size();
  ++size_;
}

void TextList::append_number(uint64_t number) {
  for (; number >= 0x80; number >>= 7) codes_.push_back(static_cast<uint8_t>(number | 0x80));
  codes_.push_back(static_cast<uint8_t>(number));
}

}  // namespace meg::text
