#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// The end-of-document token of GPT-2's vocabulary.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

class BpeModelBuilder;

/// Pieces and merges of a byte-level BPE vocabulary, numbered for merging.
/// A piece is a byte string that takes part in merging: each single byte, and each side and result
/// of a merge. A token is an entry of the vocabulary; one that no merge gives, such as a special
/// token, is no piece.
class BpeModel {
 public:
  struct Merge {
    int32_t left, right, result;  // piece numbers
  };

  /// vocab_file: JSON, token -> id; merge_file: a header line, then one merge a line, first to
  /// apply first. Ids come out as Megatron's wherever it reads the files without harm; where it
  /// would go silently wrong (an HTML page, a merge whose pieces or result are not in the
  /// vocabulary, ...) this is kCorruption. kNotFound, kIoError, kResourceExhausted for the files
  /// themselves. Mirrors Megatron-LM megatron/tokenizer/gpt2_tokenization.py: GPT2Tokenizer.
  static Result<BpeModel> load(const std::string& vocab_file, const std::string& merge_file);

  /// The same from the files' contents; the names are for messages.
  static Result<BpeModel> parse(std::string_view vocab_json, const std::string& vocab_name,
                                std::string_view merges_text, const std::string& merges_name);

  /// Pieces 0 ... 255 are the single bytes by value; the others follow in order of first use, one
  /// number for each distinct byte string.
  int32_t piece_count() const { return static_cast<int32_t>(piece_ids_.size()); }

  /// The vocabulary's id; 0 for a single byte that it lacks, as Megatron does.
  int32_t token_id(int32_t piece) const { return piece_ids_[static_cast<size_t>(piece)]; }

  /// The bytes of text that the piece stands for; valid as long as the model.
  std::string_view piece_bytes(int32_t piece) const {
    return bytes_of(pieces_[static_cast<size_t>(piece)]);
  }

  /// By rank: the first is the first to apply. Every pair once.
  const std::vector<Merge>& merges() const { return merges_; }

  /// Distinct tokens in the vocabulary.
  int64_t vocab_size() const { return vocab_size_; }

  /// The largest id in the vocabulary.
  int32_t max_id() const { return tokens_.back().id; }

  /// Id of kEndOfText; empty where the vocabulary lacks it.
  std::optional<int32_t> eod() const { return eod_; }

  /// The bytes that an id decodes to: those that its token's characters stand for, or the token's
  /// own text where one of them is outside the byte alphabet. Empty for an id that no token has.
  std::optional<std::string_view> token_bytes(int32_t id) const;

  /// What a user should know about the files; one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class BpeModelBuilder;

  struct Span {
    uint32_t offset, size;  // in bytes_
  };

  struct Token {
    int32_t id;
    Span span;
  };

  std::string_view bytes_of(Span span) const { return {bytes_.data() + span.offset, span.size}; }

  std::vector<char> bytes_;
  std::vector<Span> pieces_;
  std::vector<int32_t> piece_ids_;
  std::vector<Merge> merges_;
  std::vector<Token> tokens_;  // by id, each id once
  int64_t vocab_size_ = 0;
  std::optional<int32_t> eod_;
  std::vector<std::string> warnings_;
};

}  // namespace meg::tokenizer
