#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/models/internal/word_model.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {

// Encoders for a model that encodes words. dtype: kUint16 (if every id fits) or kInt32. model must
// outlive the encoder.

/// Remembers the words. scan: what cuts texts into words.
std::unique_ptr<TokenEncoder> new_word_encoder(const WordModel& model, DType dtype,
                                               fast::WordScanner scan);

/// first_word_size: of a text that is not empty.
std::unique_ptr<TokenEncoder> new_reference_word_encoder(
    const WordModel& model, std::function<size_t(std::string_view)> first_word_size);

}  // namespace meg::tokenizer
