#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/preprocess/internal/chunk_documents.h"
#include "libmeg/tokenizer/interface/token_buffer.h"

namespace meg::preprocess {

/// The documents of one key of a chunk: tokens of all sequences one after another, the sequences'
/// lengths (tokens) and the documents' numbers of sequences.
struct KeyTokens {
  /// A run of documents that are contiguous in one dataset's .bin.
  struct Piece {
    size_t dataset = 0;
    int64_t offset = 0;       ///< in .bin, bytes
    int64_t first_token = 0;  ///< in `tokens`
    int64_t token_count = 0;
  };

  explicit KeyTokens(DType dtype) : tokens(dtype) {}

  tokenizer::TokenBuffer tokens;
  std::vector<int32_t> sequence_lengths;
  std::vector<int32_t> document_sequence_counts;
  std::vector<Piece> pieces;  ///< the places of the tokens; set once it is the chunk's turn
};

/// What became of one TextChunk. Used again for other chunks.
struct TokenizedChunk : DocumentCounts {
  TokenizedChunk(size_t key_count, DType dtype);

  /// Forgets the content and keeps the memory, except what a giant line needed beyond
  /// `token_limit` tokens a key.
  void clear(int64_t token_limit);

  /// Keeps the first documents and what precedes the last of them; each key must have all of them.
  void truncate(int64_t count);

  int64_t number = 0;  ///< TextChunk's
  int input = 0;       ///< TextChunk's
  int64_t end = 0;     ///< after its last byte in its input's content
  int64_t input_bytes = 0;
  int64_t text_bytes = 0;
  int64_t text_tokens = 0;  ///< without end-of-document tokens
  Status source_error;      ///< what ended the source instead of this chunk, or after it
  std::vector<KeyTokens> keys;
  std::vector<dataset::DocumentPlace> places;  ///< of the documents, where they are recorded
  /// The number of documents before each document that was left out as too short.
  std::vector<int64_t> short_documents;
};

}  // namespace meg::preprocess
