#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "libmeg/base/result.h"

namespace meg::preprocess {

/// What training found about a word type; sums of these.
enum OrthographicContext : int {
  kBeginUpper = 1 << 1,
  kMiddleUpper = 1 << 2,
  kUnknownUpper = 1 << 3,
  kBeginLower = 1 << 4,
  kMiddleLower = 1 << 5,
  kUnknownLower = 1 << 6,
};

/// The parameters of a trained Punkt model: text tables, nothing that is executed.
/// Mirrors nltk/tokenize/punkt.py: PunktParameters, load_punkt_params.
class PunktModel {
 public:
  /// folder: as SentenceOptions::punkt_folder. kNotFound if a file is missing, kCorruption, with
  /// the line, for lines that do not belong in the tables.
  static Result<PunktModel> open(const std::string& folder);

  bool is_abbreviation(std::string_view type) const { return abbreviations_.contains(type); }

  bool is_sentence_starter(std::string_view type) const { return starters_.contains(type); }

  /// Whether `second` often follows `first` and its period.
  bool is_collocation(std::string_view first, std::string_view second) const;

  /// Sum of OrthographicContext; 0 if nothing is known.
  int orthographic_context(std::string_view type) const;

 private:
  struct Hash {
    using is_transparent = void;

    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::unordered_set<std::string, Hash, std::equal_to<>> abbreviations_;
  std::unordered_set<std::string, Hash, std::equal_to<>> starters_;
  std::unordered_set<std::string, Hash, std::equal_to<>> collocations_;  // first, tab, second
  std::unordered_map<std::string, int, Hash, std::equal_to<>> contexts_;
};

}  // namespace meg::preprocess
