#include "libmeg/preprocess/internal/tokenized_chunk.h"

#include <numeric>

namespace meg::preprocess {
namespace {

// Empties `values` and gives their memory back where more than `limit` were there: one giant line
// would otherwise keep its memory in every result for the rest of the run.
void clear_beyond(std::vector<int32_t>& values, size_t limit) {
  if (values.capacity() > limit) std::vector<int32_t>().swap(values);
  values.clear();
}

}  // namespace

TokenizedChunk::TokenizedChunk(size_t key_count, DType dtype) {
  keys.reserve(key_count);
  for (size_t i = 0; i < key_count; ++i) keys.emplace_back(dtype);
}

// Tokens after the last document stay: pieces say which of them are written.
void TokenizedChunk::truncate(int64_t count) {
  documents = count;
  if (!places.empty()) places.resize(static_cast<size_t>(count));
  while (!short_documents.empty() && short_documents.back() >= count) short_documents.pop_back();
  for (KeyTokens& key : keys) {
    key.document_sequence_counts.resize(static_cast<size_t>(count));
    const auto& counts = key.document_sequence_counts;
    key.sequence_lengths.resize(
        static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  }
}

void TokenizedChunk::clear(int64_t token_limit) {
  for (KeyTokens& key : keys) {
    key.tokens.clear();
    key.tokens.shrink(token_limit);
    clear_beyond(key.sequence_lengths, static_cast<size_t>(token_limit));
    clear_beyond(key.document_sequence_counts, static_cast<size_t>(token_limit));
    key.pieces.clear();
  }
  number = input_bytes = text_bytes = text_tokens = 0;
  static_cast<DocumentCounts&>(*this) = {};
  input = 0;
  source_error = Status();
  places.clear();
  short_documents.clear();
}

}  // namespace meg::preprocess
