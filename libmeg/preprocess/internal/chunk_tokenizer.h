#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/preprocess/internal/tokenized_chunk.h"
#include "libmeg/preprocess/sentences/internal/sentence_splitter.h"
#include "libmeg/preprocess/sources/internal/document_reader.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::preprocess {

/// Turns chunks of documents into tokens by preprocess_data's rules: an empty tokenization adds no
/// sequence; the end-of-document token belongs to the last sequence; a document without tokens gets
/// none. A document that is too short is left out of every key. Belongs to one thread; must not
/// outlive the tokenizer. Mirrors Megatron-LM tools/preprocess_data.py: Encoder.encode.
class ChunkTokenizer {
 public:
  struct Rules {
    std::optional<int32_t> appended_eod;  ///< Ends every document that has tokens.
    bool skip_empty_documents = false;
    int64_t min_tokens = 0;  ///< PreprocessOptions'
    bool stop_at_bad_line = true;
    /// Splits each text into sequences; a list of texts is taken for split already. May be null.
    const SentenceSplitter* splitter = nullptr;
    bool record_places = false;  ///< Fill TokenizedChunk::places.
  };

  ChunkTokenizer(const tokenizer::Tokenizer& tokenizer, DType dtype,
                 const std::vector<std::string>& keys, const Rules& rules);

  /// out: cleared.
  void run(const TextChunk& chunk, TokenizedChunk& out);

 private:
  struct KeySizes {
    static KeySizes of(const KeyTokens& key);
    /// Removes the tokens of a document that is left out of the dataset.
    void cut_back(KeyTokens& key) const;

    int64_t tokens = 0;
    size_t sequences = 0, documents = 0;
  };

  Result<bool> tokenize(std::string_view document, size_t record, const TextChunk& chunk,
                        TokenizedChunk& out);
  bool is_split(size_t key) const;
  const text::TextList& sequences(size_t key) const;
  Result<int64_t> add_documents(TokenizedChunk& out);
  void take_back_documents(TokenizedChunk& out) const;
  Result<int64_t> add_document(const text::TextList& texts, KeyTokens& key);

  DocumentReader reader_;
  std::unique_ptr<tokenizer::TokenEncoder> encoder_;
  Rules rules_;
  std::vector<text::TextList> sentences_;  // of the document's keys, where they were split
  std::vector<KeySizes> before_;           // of the keys, in front of the document
};

}  // namespace meg::preprocess
