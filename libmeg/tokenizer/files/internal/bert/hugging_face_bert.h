#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"

namespace meg::tokenizer::wordpiece {

/// A vocab.txt in the BertTokenizer of transformers 5, which megatron.core.tokenizers uses for
/// BertWordPieceLowerCase and BertWordPieceCase. The texts of its special tokens become these
/// tokens; a document ends with [SEP]. name: the file's, for errors. case_kept: also that 100
/// tokens <extra_id_0> ... are added, as Megatron does there alone. Errors:
/// VocabularyLines::parse's; kCorruption if a special token is missing, kUnsupported for a token
/// with whitespace around it, which Megatron's other class strips and this one keeps.
/// Mirrors Megatron-LM megatron/core/tokenizers/text/libraries/megatron_hf_tokenizer.py.
Result<std::unique_ptr<HuggingFaceTokenizer>> parse_hugging_face_bert(
    std::string_view vocabulary, const std::string& name, bool case_kept,
    const HuggingFaceTokenizer::Options& options);

}  // namespace meg::tokenizer::wordpiece
