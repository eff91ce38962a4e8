#include "libmeg/tokenizer/bpe/internal/fast/character_joints.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

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

CharacterJoints::Filter::Filter(std::span<const uint64_t> keys) {
  if (keys.empty()) return;
  const size_t bits = std::bit_ceil(std::max<size_t>(keys.size() * 32, 1024));
  bits_.assign(bits / 64, 0);
  shift_ = 64 - std::countr_zero(bits);
  for (const uint64_t key : keys) {
    const uint64_t bit = bit_of(key);
    bits_[bit / 64] |= uint64_t{1} << (bit % 64);
  }
}

CharacterJoints::CharacterJoints(const BpeModel& model, const MergedSize& merged_size) {
  if (model.merges_characters()) return;
  std::vector<Joint> joints;
  std::vector<uint64_t> pairs_alone;
  for (const std::string_view token : model.token_texts()) {
    add_joints(token, joints);
    const bool has_lead = std::any_of(token.begin(), token.end(), is_lead);
    // A token that merging gives as well crosses no border that is cut. Others are found only as
    // whole words.
    if (!has_lead || !model.whole_word(token) || merged_size(token) == 1) continue;
    if (!add_word_alone(token, pairs_alone)) return;
  }
  cuts_ = true;
  words_alone_ = Filter(pairs_alone);
  fill(joints);
}

/// Adds the pairs of a token that must not become a part of a word. False if the token could be a
/// part with no pair at one of its ends, which then does not keep words from being cut there.
bool CharacterJoints::add_word_alone(std::string_view token, std::vector<uint64_t>& pairs) {
  const auto is_pair = [token](size_t at) {
    return at + 2 * kCharacterBytes <= token.size() && is_lead(token[at]) &&
           is_lead(token[at + kCharacterBytes]);
  };
  const auto ends_with = [token](size_t characters) {
    const size_t bytes = characters * kCharacterBytes;
    return token.size() >= bytes && is_lead(token[token.size() - bytes]);
  };
  if (is_lead(token.front()) && !is_pair(0)) return false;
  if (ends_with(1) && !ends_with(2)) return false;
  for (size_t at = 0; at < token.size(); ++at) {
    if (is_pair(at)) pairs.push_back(number_of(token.substr(at, 2 * kCharacterBytes)));
  }
  return true;
}

void CharacterJoints::add_joints(std::string_view token, std::vector<Joint>& joints) {
  for (size_t border = 1; border < token.size(); ++border) {
    const size_t before = std::min(border, kCharacterBytes);
    const size_t after = std::min(token.size() - border, kCharacterBytes);
    if (ends_character(token.substr(border - before, before)) &&
        begins_character(token.substr(border, after))) {
      joints.push_back({before, after, number_of(token.substr(border - before, before + after))});
    }
  }
}

void CharacterJoints::fill(std::span<const Joint> joints) {
  std::vector<uint64_t> pairs;
  std::vector<uint64_t> parts;
  sides_.assign(kCharacters, Sides{});
  // A joint with a part of a character concerns every character with this part. So they are
  // collected by part first: the last byte or two of a character, the first byte or two.
  constexpr size_t kPairs = size_t{1} << (2 * kLastBits);
  constexpr size_t kFirstTwo = kCharacters >> kLastBits;
  std::array<uint16_t, size_t{1} << kLastBits> last{};
  std::array<uint16_t, kPairs> last_two{};
  std::array<uint16_t, kCharacters / kPairs> first{};
  std::array<uint16_t, kFirstTwo> first_two{};
  for (const Joint& joint : joints) {
    if (joint.before + joint.after == 2 * kCharacterBytes) {
      pairs.push_back(joint.key);
      continue;
    }
    parts.push_back(joint.key);
    const auto add_bit = [bit = 1U << kind(joint.before, joint.after)](uint16_t& kinds) {
      kinds = static_cast<uint16_t>(kinds | bit);
    };
    const size_t ends = character_number(joint.key << (8 * (kCharacterBytes - joint.before)));
    const size_t begins = character_number(joint.key >> (8 * joint.before));
    switch (joint.before) {
      case 1:
        add_bit(last[ends % last.size()]);
        break;
      case 2:
        add_bit(last_two[ends % kPairs]);
        break;
      default:
        add_bit(sides_[ends].ends);
    }
    switch (joint.after) {
      case 1:
        add_bit(first[begins / kPairs]);
        break;
      case 2:
        add_bit(first_two[begins >> kLastBits]);
        break;
      default:
        add_bit(sides_[begins].begins);
    }
  }
  pairs_ = Filter(pairs);
  parts_ = Filter(parts);
  for (size_t i = 0; i < kCharacters; ++i) {
    Sides& sides = sides_[i];
    sides.ends = static_cast<uint16_t>(sides.ends | last[i % last.size()] | last_two[i % kPairs]);
    sides.begins =
        static_cast<uint16_t>(sides.begins | first[i / kPairs] | first_two[i >> kLastBits]);
  }
}

/// Whether a token has both characters, or one of them and a part of the other, or parts of both.
/// around: the six bytes around their border, and two more that do not count.
bool CharacterJoints::is_joined(uint64_t around) const {
  const Sides left = sides_[character_number(around)];
  const Sides right = sides_[character_number(around >> (8 * kCharacterBytes))];
  bool joined = pairs_.has(around & bytes_mask(2 * kCharacterBytes));
  for (uint32_t kinds = left.ends & right.begins; kinds != 0; kinds &= kinds - 1) {
    const auto of = static_cast<size_t>(std::countr_zero(kinds));
    const size_t before = of / kCharacterBytes + 1;
    const size_t after = of % kCharacterBytes + 1;
    joined |= parts_.has(around >> (8 * (kCharacterBytes - before)) & bytes_mask(before + after));
  }
  return joined;
}

/// Whether the border at text[at] is beside one of the pairs that keep it from being cut, or may
/// be.
bool CharacterJoints::is_beside_word_alone(const char* text, size_t at) const {
  constexpr size_t kPairBytes = 2 * kCharacterBytes;
  const auto has = [this](uint64_t bytes) {
    return words_alone_.has(bytes & bytes_mask(kPairBytes));
  };
  // What comes before `text` is not looked at.
  return at < kPairBytes || has(load(text + at - kPairBytes)) || has(load(text + at));
}

void CharacterJoints::cut(const char* text, std::span<const uint64_t> borders,
                          std::span<uint64_t> starts) const {
  if (!cuts_) return;
  for (size_t k = 0; k < borders.size(); ++k) {
    uint64_t cuts = 0;
    for (uint64_t left = borders[k]; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      const size_t at = 64 * k + static_cast<size_t>(i);
      bool may_cut = !is_joined(load(text + at - kCharacterBytes));
      if (!words_alone_.empty()) may_cut = may_cut && !is_beside_word_alone(text, at);
      // Without a branch, as the answers are unpredictable.
      cuts |= uint64_t{may_cut} << i;
    }
    starts[k] |= cuts;
  }
}

}  // namespace meg::tokenizer::fast
