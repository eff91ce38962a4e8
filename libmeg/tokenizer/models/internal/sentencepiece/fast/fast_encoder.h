#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/merge_pairs.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/text_normalizer.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/unigram.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"
#include "libmeg/tokenizer/words/internal/word_split.h"

namespace meg::tokenizer::sentencepiece::fast {

/// What the fast encoders of a model share. Immutable.
class FastModel {
 public:
  /// nullopt for models of words or characters and for BPE with unused pieces, which the reference
  /// encoder handles. model must outlive the result.
  static std::optional<FastModel> build(const Model& model);

  /// dtype: kUint16 (where every id fits) or kInt32. The encoder must not outlive this.
  std::unique_ptr<TokenEncoder> new_encoder(DType dtype) const;

 private:
  FastModel(const Model& model, tokenizer::fast::WordSplit split)
      : model_(&model), plain_(plain_characters(model)), split_(std::move(split)) {}

  const Model* model_;
  PlainCharacters plain_;
  tokenizer::fast::WordSplit split_;
  std::optional<UnigramTable> unigram_;
  std::optional<MergePairs> bpe_;
};

}  // namespace meg::tokenizer::sentencepiece::fast
