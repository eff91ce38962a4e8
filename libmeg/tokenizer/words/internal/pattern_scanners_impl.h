// What a source file of an instruction set compiles: the scanner of each pattern.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include "libmeg/tokenizer/words/internal/deepseek_scan_impl.h"
#include "libmeg/tokenizer/words/internal/digits_scan_impl.h"
#include "libmeg/tokenizer/words/internal/pattern_scan_impl.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {
namespace {

template <class Block, size_t... kForms>
fast::WordScanner scanner_of_form(size_t form, std::index_sequence<kForms...>) {
  constexpr fast::WordScanner kScanners[] = {
      scan_pattern<FormWords<kPatternForms[kForms]>, Block>...,
      scan_pattern<DeepSeekWords, Block>,
      scan_pattern<DigitsWords, Block>,
  };
  static_assert(std::size(kScanners) == kDigitsForm + 1);
  return kScanners[form];
}

template <class Block>
fast::WordScanner scanner_of_form(size_t form) {
  return scanner_of_form<Block>(form, std::make_index_sequence<std::size(kPatternForms)>());
}

}  // namespace
}  // namespace meg::tokenizer
