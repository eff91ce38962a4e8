#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// The lines of a merges.txt, as Megatron-LM reads them.
struct MergeList {
  struct Pair {
    std::string_view left, right;  // as the file writes them
    int64_t line;                  // from 1; of a JSON list, the entry's index
  };

  std::string_view place = "line";  ///< what Pair::line counts, for errors
  std::string_view header;          ///< the first line, dropped whatever it is
  std::vector<Pair> pairs;          ///< in file order; a pair may appear twice
  std::string_view dropped_tail;    ///< the text after the last line end
};

/// text: a merges.txt, borrowed by the result; name: the file's, for errors.
/// LF, CRLF and a lone CR end a line; the first line and what follows the last line end are
/// dropped; pieces are separated by whitespace; blank lines are skipped. kCorruption where text is
/// empty, an HTML page, not UTF-8, or a line has not two pieces. Mirrors Megatron-LM
/// megatron/tokenizer/gpt2_tokenization.py: GPT2Tokenizer.__init__.
Result<MergeList> parse_merge_list(std::string_view text, const std::string& name);

/// Parts a line as Python's str.split(): returns how many pieces there are and writes the first
/// two.
int split_pieces(std::string_view line, std::string_view pieces[2]);

}  // namespace meg::tokenizer
