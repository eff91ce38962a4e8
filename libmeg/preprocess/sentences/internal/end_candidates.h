#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace meg::preprocess {

/// A place where a sentence may end.
struct EndCandidate {
  size_t begin = 0;          ///< of what precedes `end` as far as the search went over it
  size_t end = 0;            ///< of the sentence, if it ends here
  size_t next = 0;           ///< the beginning of the next sentence in that case
  std::string_view context;  ///< the word before, and what follows up to the next word's end
};

/// Finds the candidates of a text, of which only the last of those that share a word counts.
/// Mirrors nltk/tokenize/punkt.py: PunktSentenceTokenizer._match_potential_end_contexts.
class EndCandidates {
 public:
  /// text: UTF-8, must stay. keep_newlines: as SentenceOptions.
  EndCandidates(std::string_view text, bool keep_newlines)
      : text_(text), keep_newlines_(keep_newlines) {}

  /// The next one; nothing at the end.
  std::optional<EndCandidate> next();

 private:
  /// What the pattern of candidates finds.
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    size_t context_begin = 0;  // of the word before
    size_t next = 0;           // of what follows
    bool next_is_word = false;
  };

  std::optional<Match> find();
  std::optional<Match> find_mark();
  std::optional<Match> find_run();
  size_t word_before(const Match& match) const;
  EndCandidate candidate(const Match& match) const;

  std::string_view text_;
  bool keep_newlines_;
  size_t at_ = 0;  // where the search continues
  bool is_begun_ = false;
  std::optional<Match> last_;  // found, not given yet
};

}  // namespace meg::preprocess
