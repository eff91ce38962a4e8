#include "libmeg/preprocess/internal/chunk_tokenizer.h"

#include <limits>

// Each worker has one of these with an encoder of its own, so that nothing is shared while
// tokenizing. Megatron's Encoder.encode decides the rules: sequences without tokens are left out,
// and an end-of-document token is added only where there are others.

namespace meg::preprocess {
namespace {

/// A sequence's length is an int32 in .idx; texts up to this many bytes cannot exceed it, with the
/// end-of-document token.
constexpr size_t kLongestText = std::numeric_limits<int32_t>::max() - 1;

}  // namespace

ChunkTokenizer::KeySizes ChunkTokenizer::KeySizes::of(const KeyTokens& key) {
  return {key.tokens.size(), key.sequence_lengths.size(), key.document_sequence_counts.size()};
}

void ChunkTokenizer::KeySizes::cut_back(KeyTokens& key) const {
  key.tokens.truncate(tokens);
  key.sequence_lengths.resize(sequences);
  key.document_sequence_counts.resize(documents);
}

ChunkTokenizer::ChunkTokenizer(const tokenizer::Tokenizer& tokenizer, DType dtype,
                               const std::vector<std::string>& keys, const Rules& rules)
    : reader_(keys),
      encoder_(tokenizer.new_encoder(dtype)),
      rules_(rules),
      sentences_(keys.size()),
      before_(keys.size()) {}

void ChunkTokenizer::run(const TextChunk& chunk, TokenizedChunk& out) {
  out.number = chunk.number;
  out.input = chunk.input;
  out.input_bytes = static_cast<int64_t>(chunk.lines.size());
  out.end = chunk.end;
  out.source_error = chunk.error;
  read_documents(
      chunk, rules_.stop_at_bad_line,
      [&](std::string_view document, size_t record) {
        return tokenize(document, record, chunk, out);
      },
      out);
}

/// False where the document is too short.
Result<bool> ChunkTokenizer::tokenize(std::string_view document, size_t record,
                                      const TextChunk& chunk, TokenizedChunk& out) {
  MEG_RETURN_IF_ERROR(reader_.read(document, record, chunk));
  int64_t text_bytes = 0;
  // All texts are looked at before the first token is written: a bad document then leaves nothing
  // behind, save where encoding itself fails below.
  for (size_t i = 0; i < out.keys.size(); ++i) {
    if (is_split(i)) rules_.splitter->split(reader_.texts(i).front(), sentences_[i]);
  }
  for (size_t i = 0; i < out.keys.size(); ++i) {
    for (const std::string_view text : sequences(i)) {
      if (text.size() > kLongestText) {
        return make_error(StatusCode::kUnsupported,
                          "byte 1: expected texts of at most {} bytes, found one of {}",
                          kLongestText, text.size());
      }
      text_bytes += static_cast<int64_t>(text.size());
    }
  }
  // A text that the tokenizer refuses may come after others of the same document or key were
  // written: every key goes back to where it was, so that keys never disagree about the number of
  // documents.
  for (size_t i = 0; i < out.keys.size(); ++i) before_[i] = KeySizes::of(out.keys[i]);
  const Result<int64_t> tokens = add_documents(out);
  if (!tokens.has_value()) {
    take_back_documents(out);
    return tokens.error().with_prefix("byte 1");
  }
  out.text_bytes += text_bytes;
  out.text_tokens += *tokens;
  if (*tokens < rules_.min_tokens) {
    take_back_documents(out);
    out.short_documents.push_back(out.documents);
    return false;
  }
  if (rules_.record_places) out.places.push_back(place_of(document, record, chunk));
  return true;
}

void ChunkTokenizer::take_back_documents(TokenizedChunk& out) const {
  for (size_t i = 0; i < out.keys.size(); ++i) before_[i].cut_back(out.keys[i]);
}

bool ChunkTokenizer::is_split(size_t key) const {
  return rules_.splitter != nullptr && !reader_.texts(key).is_list();
}

/// The texts of a key, of which each becomes a sequence.
const text::TextList& ChunkTokenizer::sequences(size_t key) const {
  return is_split(key) ? sentences_[key] : reader_.texts(key);
}

/// Returns the tokens of the texts of all keys.
Result<int64_t> ChunkTokenizer::add_documents(TokenizedChunk& out) {
  int64_t text_tokens = 0;
  for (size_t i = 0; i < out.keys.size(); ++i) {
    // A document is one of each key, also where a key's text is empty: datasets of several keys
    // stay aligned, unless empty ones are left out on request.
    MEG_ASSIGN_OR_RETURN(const int64_t tokens, add_document(sequences(i), out.keys[i]));
    text_tokens += tokens;
  }
  return text_tokens;
}

/// Returns the tokens of the texts.
Result<int64_t> ChunkTokenizer::add_document(const text::TextList& texts, KeyTokens& key) {
  const int64_t first = key.tokens.size();
  int32_t sequences = 0;
  for (const std::string_view text : texts) {
    const int64_t before = key.tokens.size();
    MEG_RETURN_IF_ERROR(encoder_->encode(text, key.tokens));
    const auto length = static_cast<int32_t>(key.tokens.size() - before);
    if (length == 0) continue;
    key.sequence_lengths.push_back(length);
    ++sequences;
  }
  const int64_t text_tokens = key.tokens.size() - first;
  if (sequences == 0 && rules_.skip_empty_documents) return int64_t{0};
  if (sequences > 0 && rules_.appended_eod) {
    key.tokens.push_back(*rules_.appended_eod);
    ++key.sequence_lengths.back();
  }
  key.document_sequence_counts.push_back(sequences);
  return text_tokens;
}

}  // namespace meg::preprocess
