#pragma once

#include <string_view>

#include "libmeg/preprocess/sentences/internal/punkt_model.h"
#include "libmeg/preprocess/sentences/internal/punkt_words.h"
#include "libmeg/preprocess/sentences/sentence_options.h"
#include "libmeg/text/text_list.h"

namespace meg::preprocess {

/// Splits texts into sentences as Megatron does with nltk's Punkt. Used by any number of threads.
/// Mirrors Megatron-LM tools/preprocess_data.py: Encoder.split, CustomLanguageVars, and
/// nltk/tokenize/punkt.py: PunktSentenceTokenizer.tokenize.
class SentenceSplitter {
 public:
  /// Errors: those of PunktModel::open.
  static Result<SentenceSplitter> open(const SentenceOptions& options);

  /// Appends the sentences of `text`, which must be UTF-8: views into it.
  void split(std::string_view text, text::TextList& sentences) const;

 private:
  SentenceSplitter(PunktModel model, const SentenceOptions& options)
      : model_(std::move(model)), options_(options) {}

  void split_piece(std::string_view text, text::TextList& sentences) const;
  bool holds_end(std::string_view context) const;
  void judge_alone(PunktWord& word) const;
  void judge_before(PunktWord& word, const PunktWord& next) const;
  bool judge_abbreviation(PunktWord& word, const PunktWord& next) const;

  enum class Begins { kNo, kYes, kUnknown };

  Begins begins_sentence(const PunktWord& word) const;

  PunktModel model_;
  SentenceOptions options_;
};

}  // namespace meg::preprocess
