#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer::sentencepiece {

/// Rules that replace character sequences, such as those of NFKC, as a model holds them: a double
/// array of the darts-clone library over the sequences, and the replacements, each ended by NUL.
/// Mirrors google/sentencepiece src/normalizer.cc: DecodePrecompiledCharsMap.
class Charsmap {
 public:
  struct Match {
    size_t size;                   ///< bytes that are replaced
    std::string_view replacement;  ///< UTF-8, perhaps empty; lives as long as the Charsmap
  };

  /// bytes: of precompiled_charsmap; empty for a map without rules. kCorruption if they are not
  /// such a map, if lookups would leave it, or if replacements are not UTF-8.
  static Result<Charsmap> parse(std::string_view bytes);

  /// The rule of the longest sequence that text begins with.
  std::optional<Match> find(std::string_view text) const;

  /// The rule of the shortest one.
  std::optional<Match> find_shortest(std::string_view text) const;

  /// Whether an ASCII character becomes a space whatever follows it.
  bool becomes_space(char character) const;

  /// What PlainCharacters has to know about each code point below kRuledCharacters. A surrogate
  /// kChanges, and what is hard to tell.
  std::vector<uint8_t> character_rules() const;

  static constexpr char32_t kRuledCharacters = 0x10000;

 private:
  std::optional<Match> find(std::string_view text, int max_matches) const;
  bool advance(size_t& at, unsigned char byte, bool& has_match) const;
  bool add_second_characters(size_t at, std::vector<uint8_t>& rules, size_t& steps) const;
  Status check_units() const;
  Status check_replacements() const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace meg::tokenizer::sentencepiece
