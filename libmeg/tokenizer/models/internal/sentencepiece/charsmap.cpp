#include "libmeg/tokenizer/models/internal/sentencepiece/charsmap.h"

#include <algorithm>

#include "libmeg/base/bytes.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/words/internal/plain_characters.h"

namespace meg::tokenizer::sentencepiece {

using tokenizer::fast::PlainCharacters;

namespace {

/// The library looks at this many of the sequences that a text begins with, the shortest ones.
constexpr int kMaxMatches = 32;

/// Prefixes of second characters that character_rules() follows; those of NFKC need a hundred.
constexpr size_t kMostSteps = 1 << 16;

/// Units come in blocks.
constexpr size_t kBlockUnits = 256;

// A unit of the double array: a node or, marked by the top bit, the value of a sequence.
//
// darts-clone's layout: the children of the unit at i stand at (i ^ offset) ^ byte, each labelled
// with its byte, and the value, where there is one, at i ^ offset. A walk is one XOR and one
// comparison a byte.

bool has_value(uint32_t unit) { return ((unit >> 8) & 1) != 0; }

uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }

/// The byte that leads to a node; above 255 for a value.
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }

/// What the position of a node is combined with to reach its value and, with a byte, its children.
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

bool is_node(uint32_t unit) { return label_of(unit) <= 0xFF; }

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view bytes) {
  Charsmap map;
  if (bytes.empty()) return map;
  if (bytes.size() < sizeof(uint32_t)) {
    return make_error(StatusCode::kCorruption, "expected a size of 4 bytes, found {} bytes",
                      bytes.size());
  }
  const size_t size = load_le<uint32_t>(bytes.data());
  bytes.remove_prefix(sizeof(uint32_t));
  if (size == 0 || size % (kBlockUnits * sizeof(uint32_t)) != 0 || size >= bytes.size()) {
    return make_error(StatusCode::kCorruption,
                      "expected a trie of a multiple of 1024 bytes below {}, found {}",
                      bytes.size(), size);
  }
  map.units_.reserve(size / sizeof(uint32_t));
  for (size_t at = 0; at < size; at += sizeof(uint32_t)) {
    map.units_.push_back(load_le<uint32_t>(bytes.data() + at));
  }
  map.replacements_ = std::string(bytes.substr(size));
  MEG_RETURN_IF_ERROR(map.check_replacements());
  MEG_RETURN_IF_ERROR(map.check_units());
  return map;
}

Status Charsmap::check_replacements() const {
  // Replacements are read as C strings from a unit's value on.
  if (replacements_.back() != '\0') {
    return Status(StatusCode::kCorruption, "expected NUL after the last replacement");
  }
  const size_t invalid = text::find_invalid_utf8(replacements_);
  if (invalid == std::string::npos) return {};
  return make_error(StatusCode::kCorruption,
                    "byte {} of the replacements: expected UTF-8, found 0x{:02x}", invalid,
                    static_cast<unsigned char>(replacements_[invalid]));
}

/// Afterwards no lookup can leave the units or the replacements.
/// A byte changes only the low 8 bits of a position, so a node whose block of 256 lies inside has
/// all of its possible children inside. Checked once for all units here, find() indexes without
/// looking; a hostile file could otherwise lead it anywhere.
Status Charsmap::check_units() const {
  const auto error = [](size_t unit) {
    return make_error(StatusCode::kCorruption, "unit {} of the trie leads outside of it", unit);
  };
  const auto starts_replacement = [&](uint32_t value) {
    return value < replacements_.size() && !text::is_continuation_byte(replacements_[value]);
  };
  if (label_of(units_[0]) != 0 || has_value(units_[0]) || offset_of(units_[0]) == 0) {
    return error(0);
  }
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!is_node(units_[i])) {
      if (!starts_replacement(value_of(units_[i]))) return error(i);
      continue;
    }
    const size_t children = i ^ offset_of(units_[i]);
    if ((children | (kBlockUnits - 1)) >= units_.size()) return error(i);
    if (has_value(units_[i]) && is_node(units_[children])) return error(i);
  }
  return {};
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text) const {
  return find(text, kMaxMatches);
}

std::optional<Charsmap::Match> Charsmap::find_shortest(std::string_view text) const {
  return find(text, 1);
}

/// The longest of the `max_matches` shortest.
std::optional<Charsmap::Match> Charsmap::find(std::string_view text, int max_matches) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Match> longest;
  int matches = 0;
  size_t at = offset_of(units_[0]);
  bool has_match;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!advance(at, static_cast<unsigned char>(text[i]), has_match)) break;
    if (!has_match) continue;
    longest = {i + 1, replacements_.data() + value_of(units_[at])};
    if (++matches == max_matches) break;
  }
  return longest;
}

/// Follows a byte from `at`, where a node's value and children stand, to where those of the next
/// node do. False if no sequence continues with it. has_match: whether a sequence ends there.
bool Charsmap::advance(size_t& at, unsigned char byte, bool& has_match) const {
  const uint32_t unit = units_[at ^ byte];
  if (label_of(unit) != byte) return false;
  at ^= byte ^ offset_of(unit);
  has_match = has_value(unit);
  return true;
}

bool Charsmap::becomes_space(char character) const {
  const std::optional<Match> match = find({&character, 1});
  if (!match || match->replacement != " ") return false;
  size_t at = offset_of(units_[0]);
  bool has_match;
  advance(at, static_cast<unsigned char>(character), has_match);
  for (unsigned byte = 0; byte <= 0xFF; ++byte) {
    size_t next = at;
    if (advance(next, static_cast<unsigned char>(byte), has_match)) return false;
  }
  return true;
}

std::vector<uint8_t> Charsmap::character_rules() const {
  std::vector<uint8_t> rules(kRuledCharacters);
  size_t steps = kMostSteps;
  std::string bytes;
  for (char32_t character = 0; character < kRuledCharacters; ++character) {
    if (character >= 0xD800 && character < 0xE000) {
      rules[character] |= PlainCharacters::kChanges;
      continue;
    }
    if (units_.empty()) continue;
    bytes.clear();
    text::append_code_point(character, bytes);
    size_t at = offset_of(units_[0]);
    bool has_match = false;
    const bool is_begin = std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
      return !has_match && advance(at, static_cast<unsigned char>(byte), has_match);
    });
    const bool is_known = !has_match && (!is_begin || add_second_characters(at, rules, steps));
    if (!is_known) rules[character] |= PlainCharacters::kChanges;
    if (is_begin) rules[character] |= PlainCharacters::kBegins;
  }
  return rules;
}

/// Marks the characters that follow a first one in longer sequences. False if kContinues cannot
/// tell them: one in ASCII or from kRuledCharacters on, or a sequence that ends within one; and
/// where no steps are left, of which a hostile map could otherwise need billions.
bool Charsmap::add_second_characters(size_t at, std::vector<uint8_t>& rules, size_t& steps) const {
  constexpr unsigned char kFirst = 0x80, kLast = 0xBF;  // continuation bytes
  for (unsigned lead = 0; lead <= 0xFF; ++lead) {
    size_t second = at;
    bool has_match;
    if (!advance(second, static_cast<unsigned char>(lead), has_match)) continue;
    if (lead < 0xC2 || lead > 0xEF || has_match) return false;
    for (unsigned byte = kFirst; byte <= kLast; ++byte) {
      size_t third = second;
      if (!advance(third, static_cast<unsigned char>(byte), has_match)) continue;
      if (lead < 0xE0) {
        rules[(lead & 0x1F) << 6 | (byte & 0x3F)] |= PlainCharacters::kContinues;
        continue;
      }
      if (has_match || steps == 0) return false;
      --steps;
      for (unsigned last = kFirst; last <= kLast; ++last) {
        size_t end = third;
        if (!advance(end, static_cast<unsigned char>(last), has_match)) continue;
        rules[(lead & 0x0F) << 12 | (byte & 0x3F) << 6 | (last & 0x3F)] |=
            PlainCharacters::kContinues;
      }
    }
  }
  return true;
}

}  // namespace meg::tokenizer::sentencepiece
