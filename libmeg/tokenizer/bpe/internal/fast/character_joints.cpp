#include "libmeg/tokenizer/bpe/internal/fast/character_joints.h"

#include <algorithm>
#include <bit>

namespace meg::tokenizer::fast {
namespace {

constexpr size_t kCharacterBytes = 3;
constexpr unsigned char kFirstLead = 0xE3;  // of U+3000

bool is_lead(char byte) {
  return static_cast<unsigned char>(byte) >= kFirstLead && static_cast<unsigned char>(byte) < 0xF0;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Whether `bytes` may be the end of a character, or all of it.
bool ends_character(std::string_view bytes) {
  const bool is_whole = bytes.size() == kCharacterBytes;
  return (!is_whole || is_lead(bytes[0])) &&
         std::all_of(bytes.begin() + (is_whole ? 1 : 0), bytes.end(), is_continuation);
}

/// Whether `bytes` may be the beginning of one, or all of it.
bool begins_character(std::string_view bytes) {
  return is_lead(bytes[0]) && std::all_of(bytes.begin() + 1, bytes.end(), is_continuation);
}

uint64_t number_of(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    number |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return number;
}

uint64_t load(const char* bytes) {
  uint64_t number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

constexpr uint64_t kPair = (uint64_t{1} << (16 * kCharacterBytes)) - 1;

}  // namespace

void CharacterJoints::Filter::reserve(size_t count) {
  const size_t bits = std::bit_ceil(std::max<size_t>(count * 16, 1024));
  bits_.assign(bits / 64, 0);
  shift_ = 64 - std::countr_zero(bits);
}

void CharacterJoints::Filter::add(uint64_t key) {
  const uint64_t bit = (key * 0x9e3779b97f4a7c15u) >> shift_;
  bits_[bit / 64] |= uint64_t{1} << (bit % 64);
}

CharacterJoints::CharacterJoints(const BpeModel& model, const MergedSize& merged_size) {
  if (model.merges_characters()) return;
  std::vector<uint64_t> keys;
  for (const std::string_view token : model.token_texts()) {
    add_token(token, keys);
    const bool has_lead = std::any_of(token.begin(), token.end(), is_lead);
    // A token that merging gives as well crosses no border that is cut. Others are found only as
    // whole words, so words that may hold one stay whole.
    if (!has_lead || !model.whole_word(token) || merged_size(token) == 1) continue;
    const size_t found = of_words_alone_.size();
    for (size_t at = 0; at + 2 * kCharacterBytes <= token.size(); ++at) {
      if (!is_lead(token[at]) || !is_lead(token[at + kCharacterBytes])) continue;
      of_words_alone_.push_back(number_of(token.substr(at, 2 * kCharacterBytes)));
    }
    if (of_words_alone_.size() == found) return;  // It may be a part between any two borders.
  }
  cuts_ = true;
  joined_.reserve(keys.size());
  for (const uint64_t key : keys) joined_.add(key);
}

void CharacterJoints::add_token(std::string_view token, std::vector<uint64_t>& keys) {
  for (size_t border = 1; border < token.size(); ++border) {
    const size_t before = std::min(border, kCharacterBytes);
    const size_t behind = std::min(token.size() - border, kCharacterBytes);
    if (!ends_character(token.substr(border - before, before)) ||
        !begins_character(token.substr(border, behind))) {
      continue;
    }
    keys.push_back(number_of(token.substr(border - before, before + behind)));
    const Kind kind = {static_cast<int>(8 * (kCharacterBytes - before)),
                       (uint64_t{1} << (8 * (before + behind))) - 1};
    const auto is_same = [&kind](const Kind& known) {
      return known.shift == kind.shift && known.mask == kind.mask;
    };
    if (std::none_of(kinds_.begin(), kinds_.end(), is_same)) kinds_.push_back(kind);
  }
}

bool CharacterJoints::concerns(std::string_view text) const {
  if (!cuts_) return false;
  unsigned char largest = 0;  // without a branch, so that compilers take many bytes at once
  for (const char byte : text) largest = std::max(largest, static_cast<unsigned char>(byte));
  return largest >= kFirstLead;
}

size_t CharacterJoints::cut(const char* base, const uint32_t* starts, size_t count,
                            uint32_t* parts) const {
  uint32_t* out = parts;
  for (size_t i = 0; i + 1 < count; ++i) {
    *out++ = starts[i];
    if (cuts_ && starts[i + 1] - starts[i] >= 2 * kCharacterBytes) {
      out = cut_word(base, starts[i], starts[i + 1], out);
    }
  }
  *out++ = starts[count - 1];
  return static_cast<size_t>(out - parts);
}

uint32_t* CharacterJoints::cut_word(const char* base, uint32_t begin, uint32_t end,
                                    uint32_t* parts) const {
  uint32_t* out = parts;
  for (uint32_t at = begin; at + 2 * kCharacterBytes <= end;) {
    if (!is_lead(base[at])) {
      ++at;
      continue;
    }
    const uint32_t border = at + kCharacterBytes;
    at = border;
    if (!is_lead(base[border])) continue;
    // The six bytes around the border, and two more that masks take away.
    const uint64_t around = load(base + border - kCharacterBytes);
    if (!is_joined(around)) {
      *out++ = border;
    } else if (std::find(of_words_alone_.begin(), of_words_alone_.end(), around & kPair) !=
               of_words_alone_.end()) {
      return parts;
    }
  }
  return out;
}

}  // namespace meg::tokenizer::fast
