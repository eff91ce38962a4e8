// Any small vocabulary and any text of Chinese, Japanese, Korean, Thai and other characters: words
// that are cut between characters before they are merged have the ids that the reference gives the
// whole. The first byte of the input is the number of tokens, of which each takes three bytes; the
// others choose the text's characters.

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/fast_encoder.h"
#include "libmeg/tokenizer/models/internal/bpe/rank_model_builder.h"
#include "libmeg/tokenizer/models/internal/bpe/reference/reference_encoder.h"
#include "libmeg/tokenizer/words/internal/reference/gpt2_pretokenizer.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

/// Characters that share bytes, and some that no cut is made beside.
constexpr std::string_view kCharacters[] = {
    "\u4e00", "\u4e2d", "\u6587", "\u3042", "\u30fc", "\ud55c", "\u3000", "\uffe5",
    "\u0e01", "\u0e02", "\u00e9", "a",      " ",      "\n",     "1",      "\U00020000"};

std::string_view character(uint8_t choice) { return kCharacters[choice % std::size(kCharacters)]; }

/// A part of two to nine bytes of four characters.
std::string token_of(std::span<const uint8_t> choices) {
  std::string text;
  for (const uint8_t pair : choices.first(2)) {
    text += character(pair);
    text += character(pair / 16);
  }
  const size_t begin = choices[2] % (text.size() - 1);
  return text.substr(begin, 2 + choices[2] / 32U);
}

/// The tokens of the input, taken from its front, and the single bytes; where the first byte is
/// odd, after what merges to each character.
std::vector<std::string> take_tokens(std::span<const uint8_t>& input) {
  const uint8_t first = input[0];
  input = input.subspan(1);
  std::set<std::string> known;
  std::vector<std::string> tokens;
  const auto add = [&](const std::string& token) {
    if (known.insert(token).second) tokens.push_back(token);
  };
  for (const std::string_view character : kCharacters) {
    for (size_t size = 2; first % 2 == 1 && size <= character.size(); ++size) {
      add(std::string(character.substr(0, size)));
    }
  }
  for (int count = first / 4; count > 0 && input.size() > 3; --count) {
    const std::string token = token_of(input.first(3));
    // Its beginnings first, so that merging gives it.
    for (size_t size = 2; size <= token.size(); ++size) add(token.substr(0, size));
    input = input.subspan(3);
  }
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  return tokens;
}

std::vector<int32_t> encoded(meg::tokenizer::TokenEncoder& encoder, std::string_view text) {
  meg::tokenizer::TokenBuffer tokens(meg::DType::kInt32);
  MEG_FUZZ_CHECK(encoder.encode(text, tokens).ok());
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens.size(); ++i) ids.push_back(tokens.at(i));
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace tokenizer = meg::tokenizer;
  if (size == 0) return 0;
  std::span<const uint8_t> input(data, size);
  const auto model = tokenizer::RankModelBuilder::build(take_tokens(input), 0, "tokens");
  MEG_FUZZ_CHECK(model.has_value());
  const auto table = tokenizer::fast::MergeTable::build(*model);
  MEG_FUZZ_CHECK(table.has_value());
  std::string padded;
  for (const uint8_t choice : input) padded += character(choice);
  const size_t text_size = padded.size();
  padded.append(meg::text::kTextPadding, '\xE4');
  const std::string_view text = std::string_view(padded).substr(0, text_size);
  const auto reference = tokenizer::reference::new_reference_encoder(
      *model, meg::DType::kInt32, tokenizer::reference::first_word_size);
  const meg::InstructionSet set = meg::best_instruction_set();
  const auto fast = tokenizer::fast::new_fast_encoder(
      *model, *table, meg::DType::kInt32, tokenizer::fast::vector_functions(set).scan_words, set);
  const std::vector<int32_t> expected = encoded(*reference, text);
  MEG_FUZZ_CHECK(encoded(*fast, text) == expected);
  MEG_FUZZ_CHECK(encoded(*fast, text) == expected);  // from its caches
  return 0;
}
