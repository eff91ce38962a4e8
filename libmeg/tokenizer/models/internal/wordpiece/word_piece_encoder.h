#pragma once

#include <memory>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/models/internal/wordpiece/word_piece_model.h"

namespace meg::tokenizer::wordpiece {

// dtype: kUint16 (where every id fits) or kInt32. model must outlive the encoder.

/// Encodes with reference::basic_words().
std::unique_ptr<TokenEncoder> new_reference_encoder(const WordPieceModel& model, bool lower_case,
                                                    DType dtype);

/// Encodes with fast::WordScanner and a cache of words.
std::unique_ptr<TokenEncoder> new_fast_encoder(const WordPieceModel& model, bool lower_case,
                                               DType dtype);

}  // namespace meg::tokenizer::wordpiece
