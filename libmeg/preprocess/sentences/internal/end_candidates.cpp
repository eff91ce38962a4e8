#include "libmeg/preprocess/sentences/internal/end_candidates.h"

#include <utility>

#include "libmeg/preprocess/sentences/internal/characters.h"
#include "libmeg/preprocess/sentences/internal/punkt_words.h"

// nltk finds places where a sentence may end by one regular expression with look-ahead, and then
// the word before each. Here both are walks over the text, for the same candidates in the same
// order.

namespace meg::preprocess {
namespace {

constexpr std::string_view kEndMarks = ".?!";
constexpr std::string_view kAsciiSpace = " \t\n\r\v\f";

}  // namespace

/// [.?!] before punctuation, or before whitespace and a word.
std::optional<EndCandidates::Match> EndCandidates::find_mark() {
  for (size_t mark = at_; (mark = text_.find_first_of(kEndMarks, mark)) != text_.npos; ++mark) {
    const size_t end = mark + 1;
    const Character behind = character_at(text_, end);
    const bool is_space = behind.is(kIsSpace);
    const size_t next = is_space ? find_without(kIsSpace, text_, end) : end;
    if (is_space ? next == text_.size() : !is_punctuation_beside_words(behind.code_point)) continue;
    at_ = end;
    return Match{.begin = mark, .end = end, .next = next, .next_is_word = is_space};
  }
  return std::nullopt;
}

/// The last [.?!] of a run without whitespace, with the run before it and the whitespace after
/// it; something must follow.
std::optional<EndCandidates::Match> EndCandidates::find_run() {
  while ((at_ = find_without(kIsSpace, text_, at_)) < text_.size()) {
    const size_t run = at_;
    const size_t run_end = find_with(kIsSpace, text_, run);
    at_ = run_end;
    const bool is_last = find_without(kIsSpace, text_, run_end) == text_.size();
    const size_t mark_limit = run_end - (is_last ? 1 : 0);
    const size_t mark = text_.substr(run, mark_limit - run).find_last_of(kEndMarks);
    if (mark == text_.npos) continue;
    at_ = find_without(kIsSpace, text_, run + mark + 1);
    const bool is_word = !is_punctuation_beside_words(character_at(text_, at_).code_point);
    return Match{.begin = run, .end = at_, .next = at_, .next_is_word = is_word};
  }
  return std::nullopt;
}

std::optional<EndCandidates::Match> EndCandidates::find() {
  std::optional<Match> found = keep_newlines_ ? find_run() : find_mark();
  if (found.has_value()) found->context_begin = word_before(*found);
  return found;
}

/// Where the word before a match begins: after the last whitespace since the match before, whose
/// own word it else shares.
size_t EndCandidates::word_before(const Match& match) const {
  const size_t since = last_.has_value() ? last_->begin : 0;
  const size_t space = text_.substr(since, match.begin - since).find_last_of(kAsciiSpace);
  if (space != text_.npos && space > 0) return since + space + 1;
  return last_.has_value() ? last_->context_begin : 0;
}

EndCandidate EndCandidates::candidate(const Match& match) const {
  const size_t end = match.next_is_word ? find_with(kIsSpace, text_, match.next)
                                        : match.next + character_at(text_, match.next).size;
  return {.begin = match.begin,
          .end = match.end,
          .next = match.next,
          .context = text_.substr(match.context_begin, end - match.context_begin)};
}

std::optional<EndCandidate> EndCandidates::next() {
  if (!std::exchange(is_begun_, true)) last_ = find();
  while (last_.has_value()) {
    const std::optional<Match> following = find();
    const Match match = *std::exchange(last_, following);
    // If matches share a word, the last one is the candidate, as in nltk.
    if (!following.has_value() || match.begin <= following->context_begin) return candidate(match);
  }
  return std::nullopt;
}

}  // namespace meg::preprocess
