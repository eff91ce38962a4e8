// What the source file of an instruction set compiles. All code that is included here is static, so
// that none of it is shared with files of other flags.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include "libmeg/tokenizer/words/internal/character_scan_impl.h"
#include "libmeg/tokenizer/words/internal/copy_plain_impl.h"
#include "libmeg/tokenizer/words/internal/deepseek_scan_impl.h"
#include "libmeg/tokenizer/words/internal/digits_scan_impl.h"
#include "libmeg/tokenizer/words/internal/pattern_scan_impl.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"
#include "libmeg/tokenizer/words/internal/word_scan_impl.h"
#include "libmeg/tokenizer/words/internal/word_split_impl.h"

namespace meg::tokenizer::fast {
namespace {

template <class Block, size_t... kForms>
constexpr VectorFunctions functions_of(std::index_sequence<kForms...> /*forms*/,
                                       PrefetchWords prefetch_words) {
  return {
      .scan_words = scan_words<unicode_class, Block>,
      .scan_pattern = {scan_pattern<FormWords<kPatternForms[kForms]>, Block>...,
                       scan_pattern<DeepSeekWords, Block>, scan_pattern<DigitsWords, Block>,
                       scan_words<tokenizers_class, Block>},
      .scan_split = scan_split<Block>,
      .scan_characters = scan_characters<Block>,
      .copy_plain = copy_plain_by<Block>,
      .prefetch_words = prefetch_words,
  };
}

/// The functions by a type of blocks of 64 bytes.
template <class Block>
constexpr VectorFunctions functions_of(PrefetchWords prefetch_words = nullptr) {
  return functions_of<Block>(std::make_index_sequence<std::size(kPatternForms)>(), prefetch_words);
}

}  // namespace
}  // namespace meg::tokenizer::fast
