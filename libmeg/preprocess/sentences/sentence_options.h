#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::preprocess {

/// How documents are split into sentences: as nltk's Punkt does.
struct SentenceOptions {
  /// A model in nltk's form `punkt_tab`: a folder of abbrev_types.txt, collocations.tab,
  /// ortho_context.tab and sent_starters.txt.
  std::string punkt_folder;

  /// Whitespace after a sentence belongs to it, and candidates for sentence ends are found as with
  /// Megatron's --keep-newlines; otherwise it is dropped.
  bool keep_newlines = false;

  /// A longer text is cut into pieces of this many characters, each of which is split separately.
  int64_t max_characters = 1'000'000;
};

/// The folder tokenizers/punkt_tab/<language> in the first of nltk's places that has one:
/// $NLTK_DATA, ~/nltk_data, and nltk_data in /usr and /usr/local (share and lib).
/// kInvalidArgument for what cannot be the name of a folder, kNotFound with instructions to get
/// one.
Result<std::string> find_punkt_folder(const std::string& language);

}  // namespace meg::preprocess
