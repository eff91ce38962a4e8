#include "libmeg/tokenizer/words/internal/merge_boundaries.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "libmeg/text/utf8.h"

namespace meg::tokenizer::fast {
namespace {

constexpr size_t kCharacterBytes = 3;
constexpr unsigned char kFirstLead = 0xE0;  // of U+0800

bool is_lead(char byte) {
  return static_cast<unsigned char>(byte) >= kFirstLead && static_cast<unsigned char>(byte) < 0xF0;
}

/// Whether `bytes` may be the end of a character, or all of it.
bool ends_character(std::string_view bytes) {
  const bool is_whole = bytes.size() == kCharacterBytes;
  return (!is_whole || is_lead(bytes[0])) &&
         std::all_of(bytes.begin() + (is_whole ? 1 : 0), bytes.end(), text::is_continuation_byte);
}

/// Whether `bytes` may be the beginning of one, or all of it.
bool begins_character(std::string_view bytes) {
  return is_lead(bytes[0]) &&
         std::all_of(bytes.begin() + 1, bytes.end(), text::is_continuation_byte);
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

/// A mask of the lowest bytes of a number.
constexpr uint64_t bytes_mask(size_t count) { return (uint64_t{1} << (8 * count)) - 1; }

// Characters are told apart by the bits of their three bytes that are not the same in all of them.

constexpr int kLastBits = 6;  // of a continuation byte
constexpr size_t kCharacters = size_t{1} << (4 + 2 * kLastBits);

/// The number of the character whose bytes are the lowest three of `bytes`.
size_t character_number(uint64_t bytes) {
  return (bytes & 0x0F) << (2 * kLastBits) | (bytes >> 8 & 0x3F) << kLastBits |
         (bytes >> 16 & 0x3F);
}

/// Kinds of borders, by the number of bytes that a token has on either side.
size_t kind(size_t before, size_t after) { return (before - 1) * kCharacterBytes + after - 1; }

}  // namespace

MergeBoundaries::Filter::Filter(std::span<const uint64_t> keys) {
  if (keys.empty()) return;
  const size_t bits = std::bit_ceil(std::max<size_t>(keys.size() * 32, 1024));
  bits_.assign(bits / 64, 0);
  shift_ = 64 - std::countr_zero(bits);
  for (const uint64_t key : keys) {
    const uint64_t bit = bit_of(key);
    bits_[bit / 64] |= uint64_t{1} << (bit % 64);
  }
}

MergeBoundaries::MergeBoundaries(std::span<const std::string_view> tokens,
                                 std::span<const std::string_view> unmerged)
    : cuts_(true) {
  std::vector<InnerBorder> inner;
  for (const std::string_view token : tokens) add_inner_borders(token, inner);
  const auto is_pair = [](const InnerBorder& border) {
    return border.before + border.after == 2 * kCharacterBytes;
  };
  const auto parts = std::partition(inner.begin(), inner.end(), is_pair);
  pairs_ = filter_of({inner.begin(), parts});
  parts_ = filter_of({parts, inner.end()});
  sides_ = sides_of({parts, inner.end()});
  std::vector<uint64_t> alone;
  for (const std::string_view word : unmerged) add_word_alone(word, alone);
  words_alone_ = Filter(alone);
  for (const uint64_t key : alone) {
    for (uint64_t left = key; left != 0; left >>= 8 * kCharacterBytes) {
      Sides& sides = sides_[character_number(left)];
      sides.ends |= kAlone;
      sides.begins |= kAlone;
    }
  }
}

MergeBoundaries::Filter MergeBoundaries::filter_of(std::span<const InnerBorder> inner) {
  std::vector<uint64_t> keys;
  for (const InnerBorder& border : inner) keys.push_back(border.key);
  return Filter(keys);
}

/// Adds what keeps a token from being a part of a word: its pairs, and a character at one of its
/// ends that is in none.
void MergeBoundaries::add_word_alone(std::string_view token, std::vector<uint64_t>& keys) {
  const auto is_character = [token](size_t at) {
    return at + kCharacterBytes <= token.size() && is_lead(token[at]);
  };
  for (size_t at = 0; at < token.size(); ++at) {
    const bool is_pair = is_character(at) && is_character(at + kCharacterBytes);
    if (is_pair) keys.push_back(number_of(token.substr(at, 2 * kCharacterBytes)));
  }
  const auto add_end = [&](size_t at, bool is_in_pair) {
    if (!is_in_pair) keys.push_back(number_of(token.substr(at, kCharacterBytes)));
  };
  if (is_character(0)) add_end(0, is_character(kCharacterBytes));
  if (token.size() < kCharacterBytes) return;
  const size_t last = token.size() - kCharacterBytes;
  if (is_character(last)) {
    add_end(last, last >= kCharacterBytes && is_character(last - kCharacterBytes));
  }
}

void MergeBoundaries::add_inner_borders(std::string_view token, std::vector<InnerBorder>& inner) {
  for (size_t border = 1; border < token.size(); ++border) {
    const size_t before = std::min(border, kCharacterBytes);
    const size_t after = std::min(token.size() - border, kCharacterBytes);
    if (ends_character(token.substr(border - before, before)) &&
        begins_character(token.substr(border, after))) {
      inner.push_back({before, after, number_of(token.substr(border - before, before + after))});
    }
  }
}

/// What sides_ holds, for inner borders with a part of a character. Such a part belongs to many
/// characters, so kinds are collected by part first: a character's last byte or two, its first byte
/// or two.
std::vector<MergeBoundaries::Sides> MergeBoundaries::sides_of(std::span<const InnerBorder> inner) {
  constexpr size_t kLasts = size_t{1} << kLastBits;
  constexpr size_t kLastTwos = kLasts * kLasts;
  std::vector<Sides> sides(kCharacters);
  std::array<uint16_t, kLasts> last{};
  std::array<uint16_t, kLastTwos> last_two{};
  std::array<uint16_t, kCharacters / kLastTwos> first{};
  std::array<uint16_t, kCharacters / kLasts> first_two{};
  for (const InnerBorder& border : inner) {
    const size_t ends = character_number(border.key << (8 * (kCharacterBytes - border.before)));
    const size_t begins = character_number(border.key >> (8 * border.before));
    uint16_t& kinds_before = border.before == 1   ? last[ends % kLasts]
                             : border.before == 2 ? last_two[ends % kLastTwos]
                                                  : sides[ends].ends;
    uint16_t& kinds_after = border.after == 1   ? first[begins / kLastTwos]
                            : border.after == 2 ? first_two[begins / kLasts]
                                                : sides[begins].begins;
    for (uint16_t* const kinds : {&kinds_before, &kinds_after}) {
      *kinds = static_cast<uint16_t>(*kinds | 1U << kind(border.before, border.after));
    }
  }
  for (size_t i = 0; i < kCharacters; ++i) {
    const unsigned ends = sides[i].ends | last[i % kLasts] | last_two[i % kLastTwos];
    const unsigned begins = sides[i].begins | first[i / kLastTwos] | first_two[i / kLasts];
    sides[i] = {static_cast<uint16_t>(ends), static_cast<uint16_t>(begins)};
  }
  return sides;
}

/// Whether the border at text[at] is beside a pair or a character that keeps it from being cut, or
/// may be.
bool MergeBoundaries::is_beside_word_alone(const char* text, size_t at) const {
  constexpr size_t kPairBytes = 2 * kCharacterBytes;
  const auto has = [this](const char* bytes, size_t count) {
    return words_alone_.has(load(bytes) & bytes_mask(count));
  };
  const char* const border = text + at;
  // What comes before `text` is not looked at.
  return at < kPairBytes || has(border - kPairBytes, kPairBytes) || has(border, kPairBytes) ||
         has(border - kCharacterBytes, kCharacterBytes) || has(border, kCharacterBytes);
}

/// Whether no token has both characters, or one of them and a part of the other, or parts of both,
/// and neither side can become a word of words_alone_.
/// at: 3 or more.
bool MergeBoundaries::may_cut(const char* text, size_t at) const {
  // The six bytes around the border, and two more that do not count.
  const uint64_t around = load(text + at - kCharacterBytes);
  const Sides left = sides_[character_number(around)];
  const Sides right = sides_[character_number(around >> (8 * kCharacterBytes))];
  bool joined = pairs_.has(around & bytes_mask(2 * kCharacterBytes));
  for (uint32_t kinds = left.ends & right.begins & ~kAlone; kinds != 0; kinds &= kinds - 1) {
    const auto of = static_cast<size_t>(std::countr_zero(kinds));
    const size_t before = of / kCharacterBytes + 1;
    const size_t after = of % kCharacterBytes + 1;
    joined |= parts_.has(around >> (8 * (kCharacterBytes - before)) & bytes_mask(before + after));
  }
  if (((left.ends | right.begins) & kAlone) == 0) return !joined;
  return !joined && !is_beside_word_alone(text, at);
}

void MergeBoundaries::cut(const char* text, std::span<const uint64_t> borders,
                          std::span<uint64_t> starts) const {
  if (!cuts_) return;
  for (size_t k = 0; k < borders.size(); ++k) {
    uint64_t cuts = 0;
    for (uint64_t left = borders[k]; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      const size_t at = 64 * k + static_cast<size_t>(i);
      // Without a branch, as the answers are unpredictable.
      cuts |= uint64_t{may_cut(text, at)} << i;
    }
    starts[k] |= cuts;
  }
}

size_t MergeBoundaries::next_cut(std::string_view word, size_t begin) const {
  if (!cuts_) return word.size();
  bool is_after_character = false;
  for (size_t at = begin; at + kCharacterBytes <= word.size();) {
    const bool is_character = is_lead(word[at]);
    if (is_character && is_after_character && may_cut(word.data(), at)) return at;
    is_after_character = is_character;
    at += is_character ? kCharacterBytes : 1;
  }
  return word.size();
}

}  // namespace meg::tokenizer::fast
