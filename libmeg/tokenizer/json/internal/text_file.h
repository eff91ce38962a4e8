#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/mapped_file.h"

namespace meg::tokenizer {

/// Largest vocab.json or merges.txt that is read.
inline constexpr size_t kTokenizerFileLimit = size_t{1} << 30;

/// Maps a tokenizer's file. kResourceExhausted if it is larger than kTokenizerFileLimit.
Result<io::MappedFile> open_tokenizer_file(const std::string& path);

std::string_view without_byte_order_mark(std::string_view text);

/// kCorruption if text is empty or an HTML page (which browsers save from links that show a file
/// instead of downloading it). expected: what belongs on line 1, for the message.
Status reject_empty_or_html(std::string_view text, const std::string& name,
                            std::string_view expected);

}  // namespace meg::tokenizer
