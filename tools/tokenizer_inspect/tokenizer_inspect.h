#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/tokenizer/inspect/compare_vocabularies.h"
#include "libmeg/tokenizer/inspect/describe_tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::tools {

/// A text of which two tokenizers give different ids.
struct TextDifference {
  int64_t text = 0;   ///< From 0, in order.
  size_t token = 0;   ///< The first of the ids that differ, from 0.
  std::string bytes;  ///< Of the text from that token on.
};

/// What the tokens of texts amount to.
struct TextStatistics {
  int64_t documents = 0;
  int64_t bytes = 0;
  int64_t words = 0;  ///< Between whitespace.
  int64_t tokens = 0;
  std::optional<TextDifference> difference;  ///< From the other tokenizer.

  double bytes_per_token() const;
  double tokens_per_word() const;
};

/// The statistics of one text. other: may be null.
Result<TextStatistics> text_statistics(const std::string& text,
                                       const tokenizer::Tokenizer& tokenizer,
                                       const tokenizer::Tokenizer* other);

/// The same of --input.
Result<TextStatistics> read_statistics(const preprocess::ReadTextsOptions& options, int workers,
                                       const tokenizer::Tokenizer& tokenizer,
                                       const tokenizer::Tokenizer* other);

/// A token of --text.
struct TextToken {
  int32_t id = 0;
  std::string bytes;
};

/// What the program prints; what was not asked for is empty.
struct Inspection {
  std::string type;
  int64_t vocab_size = 0;
  int64_t padded_vocab_size = 0;
  tokenizer::TokenizerDescription description;
  std::vector<tokenizer::SpecialToken> special_tokens;
  std::optional<int32_t> eod, bos, pad;

  std::optional<std::vector<TextToken>> tokens;  ///< Of --text.
  std::optional<TextStatistics> statistics;      ///< Of --text or --input.
  std::optional<tokenizer::VocabularyDifferences> differences;
  std::string python_check;
};

void print_inspection_json(const Inspection& inspection);

/// Prints, on a terminal with colours: of --text its pieces; else a line a token, the id, a tab and
/// the piece in quotes with every byte outside ASCII as \xNN.
void print_inspection(const Inspection& inspection, bool colours);

}  // namespace meg::tools
