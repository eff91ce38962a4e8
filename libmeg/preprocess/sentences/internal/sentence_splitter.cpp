#include "libmeg/preprocess/sentences/internal/sentence_splitter.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "libmeg/preprocess/sentences/internal/characters.h"
#include "libmeg/preprocess/sentences/internal/end_candidates.h"

namespace meg::preprocess {
namespace {

constexpr std::string_view kSentencePunctuation = ";:,.!?";
constexpr std::u32string_view kClosingMarks = U"\"')]}\u2018\u2019\u201c\u201d\u00ab\u00bb";

/// What a sentence begins with though it belongs to the one before.
struct ClosingMarks {
  size_t marks_end = 0;
  size_t end = 0;  // after the whitespace that follows the marks; 0: there are none
};

ClosingMarks closing_marks(std::string_view sentence) {
  size_t at = 0;
  while (at < sentence.size()) {
    const Character next = character_at(sentence, at);
    if (kClosingMarks.find(next.code_point) == kClosingMarks.npos) break;
    at += next.size;
  }
  const size_t end = find_without(kIsSpace, sentence, at);
  const bool is_closed = end > at || at == sentence.size() || sentence.substr(at, 2) == "--";
  return at > 0 && is_closed ? ClosingMarks{at, end} : ClosingMarks{};
}

/// Gives sentences on, once it is known what of the next one belongs to them.
class Realigner {
 public:
  Realigner(std::string_view text, text::TextList& out) : text_(text), out_(out) {}

  /// The next sentence, [begin, end) of the text.
  void add(size_t begin, size_t end) {
    end = std::max(begin, end);
    if (!std::exchange(has_held_, true)) {
      begin_ = begin;
      end_ = end;
      return;
    }
    // Mirrors PunktSentenceTokenizer._realign_boundaries: quotes and brackets that close belong to
    // the sentence before them.
    const ClosingMarks marks = closing_marks(text_.substr(begin, end - begin));
    if (marks.end > 0) {
      give(begin_, begin + marks.marks_end);
    } else if (begin_ < end_) {
      give(begin_, end_);
    }
    begin_ = begin + marks.end;
    end_ = end;
  }

  void finish() {
    if (begin_ < end_) give(begin_, end_);
  }

 private:
  void give(size_t begin, size_t end) {
    out_.push_back(text::TextList::Place::kLine, text_.substr(begin, end - begin));
  }

  std::string_view text_;
  text::TextList& out_;
  bool has_held_ = false;
  size_t begin_ = 0;  // the sentence that is held back
  size_t end_ = 0;
};

/// Bytes of the first `characters` characters.
size_t size_of(std::string_view text, int64_t characters) {
  if (text.size() <= static_cast<size_t>(characters)) return text.size();
  size_t at = 0;
  for (; characters > 0 && at < text.size(); --characters) at += character_at(text, at).size;
  return at;
}

}  // namespace

Result<SentenceSplitter> SentenceSplitter::open(const SentenceOptions& options) {
  MEG_ASSIGN_OR_RETURN(PunktModel model, PunktModel::open(options.punkt_folder));
  return SentenceSplitter(std::move(model), options);
}

void SentenceSplitter::split(std::string_view text, text::TextList& sentences) const {
  sentences.restart(text.data(), text.data());
  while (!text.empty()) {
    const size_t size = size_of(text, options_.max_characters);
    split_piece(text.substr(0, size), sentences);
    text.remove_prefix(size);
  }
}

void SentenceSplitter::split_piece(std::string_view text, text::TextList& sentences) const {
  Realigner out(text, sentences);
  size_t begin = 0;
  EndCandidates candidates(text, options_.keep_newlines);
  while (const std::optional<EndCandidate> found = candidates.next()) {
    if (!holds_end(found->context)) continue;
    out.add(begin, found->end);
    begin = found->next;
  }
  out.add(begin, size_without_trailing_space(text));
  out.finish();
}

/// Whether a sentence ends after a word of the context other than its last.
bool SentenceSplitter::holds_end(std::string_view context) const {
  std::vector<PunktWord> words = punkt_words(context);
  // All words are judged alone before any pair: the second pass looks at what the first said of
  // both.
  for (PunktWord& word : words) judge_alone(word);
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    judge_before(words[i], words[i + 1]);
    if (words[i].ends_sentence) return true;
  }
  return false;
}

/// Mirrors PunktBaseClass._first_pass_annotation.
void SentenceSplitter::judge_alone(PunktWord& word) const {
  const std::string_view text = word.text;
  if (text == "." || text == "?" || text == "!") {
    word.ends_sentence = true;
  } else if (text.size() > 1 && text.find_first_not_of('.') == text.npos) {
    word.is_ellipsis = true;
  } else if (word.has_period() && !text.ends_with("..")) {
    const std::string type = lower(text.substr(0, text.size() - 1));
    const std::string_view last = std::string_view(type).substr(type.rfind('-') + 1);
    word.is_abbreviation = model_.is_abbreviation(type) || model_.is_abbreviation(last);
    word.ends_sentence = !word.is_abbreviation;
  }
}

/// Mirrors PunktSentenceTokenizer._second_pass_annotation.
void SentenceSplitter::judge_before(PunktWord& word, const PunktWord& next) const {
  if (!word.has_period()) return;
  const std::string_view type = word.type_without_period();
  const std::string_view next_type = next.type_without_sentence_period();
  if (model_.is_collocation(type, next_type)) {
    word.ends_sentence = false;
    return;
  }
  if ((word.is_abbreviation || word.is_ellipsis) && !word.is_initial() &&
      judge_abbreviation(word, next)) {
    return;
  }
  if (!word.is_initial() && type != "##number##") return;
  const Begins begins = begins_sentence(next);
  const int lower_case = kBeginLower | kMiddleLower | kUnknownLower;
  // An initial before a word that is never seen in lower case: a name, such as J. Bach.
  const bool is_name = begins == Begins::kUnknown && word.is_initial() && next.begins_upper() &&
                       (model_.orthographic_context(next_type) & lower_case) == 0;
  if (begins == Begins::kNo || is_name) word.ends_sentence = false;
}

/// Whether a sentence ends after an abbreviation or ellipsis; if so, says it.
bool SentenceSplitter::judge_abbreviation(PunktWord& word, const PunktWord& next) const {
  const bool ends =
      begins_sentence(next) == Begins::kYes ||
      (next.begins_upper() && model_.is_sentence_starter(next.type_without_sentence_period()));
  if (ends) word.ends_sentence = true;
  return ends;
}

/// Mirrors PunktSentenceTokenizer._ortho_heuristic.
SentenceSplitter::Begins SentenceSplitter::begins_sentence(const PunktWord& word) const {
  if (word.text.size() == 1 && kSentencePunctuation.find(word.text[0]) != word.text.npos) {
    return Begins::kNo;
  }
  const int context = model_.orthographic_context(word.type_without_sentence_period());
  const auto has = [&](int contexts) { return (context & contexts) != 0; };
  if (word.begins_upper() && has(kBeginLower | kMiddleLower | kUnknownLower) &&
      !has(kMiddleUpper)) {
    return Begins::kYes;
  }
  const bool was_upper = has(kBeginUpper | kMiddleUpper | kUnknownUpper);
  if (word.begins_lower() && (was_upper || !has(kBeginLower))) return Begins::kNo;
  return Begins::kUnknown;
}

}  // namespace meg::preprocess
