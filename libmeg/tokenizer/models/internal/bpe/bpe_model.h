#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/models/internal/bpe/whole_words.h"

namespace meg::tokenizer {

/// The end-of-document token of GPT-2's vocabulary.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

class BpeModelBuilder;

/// The order in which the merges of a word happen. It matters only if a merge's result takes part
/// in a merge of a lower rank, which does not occur in trained vocabularies.
enum class MergeOrder {
  kRounds,    ///< All occurrences of the pair of lowest rank, then again: GPT-2's Python.
  kOneByOne,  ///< The leftmost occurrence of the pair of lowest rank: tokenizers, tiktoken.
};

/// How a BPE model's vocabulary and merges are meant.
struct BpeRules {
  MergeOrder merge_order = MergeOrder::kRounds;
  bool ignore_merges = false;  ///< A word that is a token stays whole.

  /// Words are merged from characters, not from bytes that the vocabulary writes in its alphabet.
  bool characters = false;
  bool byte_alphabet = false;  ///< of characters: of those that the alphabet has for a word's bytes
  bool byte_fallback = false;  ///< of characters: `<0x41>` stands for a byte
  bool fuse_unknown = false;   ///< of characters: neighbouring unknown ones are one token
  std::optional<std::string> unknown_token;

  /// Of characters: what tokens have in front unless they begin a word, and behind if they end it.
  std::string continuing_subword_prefix = {}, end_of_word_suffix = {};
};

/// Pieces and merges of a BPE vocabulary, numbered for merging.
/// A piece is a byte string that takes part in merging: each single byte, and each side and result
/// of a merge; if words are merged from characters, each character in the vocabulary. A token is an
/// entry of the vocabulary; a token that no merge gives, such as a special token, is not a piece.
class BpeModel {
 public:
  struct Merge {
    int32_t left, right, result;  // piece numbers
    int32_t rank = 0;             // the lowest is the first to apply
  };

  /// vocab_file: JSON, token -> id; merge_file: a header line, then one merge per line, in the
  /// order of application. Ids are Megatron's wherever it reads the files correctly; if it would go
  /// silently wrong (an HTML page, a merge whose pieces or result are not in the vocabulary, ...),
  /// the error is kCorruption. kNotFound, kIoError, kResourceExhausted for the files themselves.
  /// Mirrors Megatron-LM megatron/tokenizer/gpt2_tokenization.py: GPT2Tokenizer.
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

  /// The tokens but for `apart` (their ids), the merges in order and what else decides how a word
  /// is merged, for Tokenizer::rules(). MergeOrder is left out, which only lists of merges in
  /// no trained order tell apart.
  std::string rules(const std::set<int32_t>& apart = {}) const;

  /// Returns every pair once, by rank; merges that share a rank have the same result.
  const std::vector<Merge>& merges() const { return merges_; }

  MergeOrder merge_order() const { return merge_order_; }

  /// The pieces that merging starts with: the word's bytes, or its characters if the model merges
  /// characters. A character that the vocabulary lacks becomes the pieces of its bytes (`<0x41>`),
  /// or else the unknown token, or else nothing.
  void start_pieces(std::string_view word, std::vector<int32_t>& pieces) const;

  bool merges_characters() const { return of_characters_; }

  /// Whether the pieces of a word depend on where it begins and ends, so that it must not be cut.
  bool marks_word_borders() const { return !prefix_.empty() || !suffix_.empty(); }

  /// What a character that the vocabulary lacks becomes if it does not become bytes; nullopt:
  /// nothing, or the model does not merge characters.
  std::optional<int32_t> unknown_id() const {
    return unknown_ == kNone || !of_characters_ ? std::nullopt : std::optional(token_id(unknown_));
  }

  /// Whether every character that the vocabulary lacks becomes bytes.
  bool knows_all_bytes() const { return fallback_bytes_.all(); }

  /// Id of a word that is a token and is not merged; nullopt for others, and for all words if the
  /// model merges every word.
  std::optional<int32_t> whole_word(std::string_view word) const { return whole_words_.find(word); }

  /// The words that whole_word() has an id for.
  const WholeWords& whole_words() const { return whole_words_; }

  /// Distinct tokens in the vocabulary.
  int64_t vocab_size() const { return vocab_size_; }

  /// The largest id in the vocabulary.
  int32_t max_id() const { return tokens_.back().id; }

  /// Id of kEndOfText; empty where the vocabulary lacks it.
  std::optional<int32_t> eod() const { return eod_; }

  /// The bytes that an id decodes to: those that its token's characters stand for, or the token's
  /// own text where one of them is outside the byte alphabet. nullopt for an id that no token has.
  std::optional<std::string_view> token_bytes(int32_t id) const;

  /// The results of token_bytes() for the ids that are tokens, by id; valid as long as the model.
  std::vector<std::string_view> token_texts() const;

  /// What a user should know about the files; one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class BpeModelBuilder;
  friend class RankModelBuilder;

  struct Span {
    uint32_t offset, size;  // in bytes_
  };

  struct Token {
    int32_t id;
    Span span;
    bool is_fallback = false;  // `<0x41>`: that text stands in bytes_ after the byte
  };

  std::string_view bytes_of(Span span) const { return {bytes_.data() + span.offset, span.size}; }

  void collect_whole_words();
  void start_characters(std::string_view word, std::vector<int32_t>& pieces) const;
  bool falls_back_to_bytes(std::string_view character) const;

  /// Whether a character has prefix_ and suffix_, as a number below 4.
  static size_t place(bool has_prefix, bool has_suffix) {
    return size_t{has_prefix} << 1 | size_t{has_suffix};
  }

  static constexpr int32_t kNone = -1;
  static constexpr uint32_t kFallbackBytes = 6;  // of `<0x41>`

  std::vector<char> bytes_;
  std::vector<Span> pieces_;
  std::vector<int32_t> piece_ids_;
  std::vector<Merge> merges_;
  std::vector<Token> tokens_;  // by id, each id once
  int64_t vocab_size_ = 0;
  std::optional<int32_t> eod_;
  MergeOrder merge_order_ = MergeOrder::kRounds;
  WholeWords whole_words_;  // with views into bytes_

  // Of a model of characters:
  bool of_characters_ = false;
  bool in_byte_alphabet_ = false;
  std::string prefix_, suffix_;
  std::array<std::unordered_map<char32_t, int32_t>, 4> characters_;  // pieces, by place()
  std::bitset<256> fallback_bytes_;                                  // that have a piece `<0x41>`
  int32_t unknown_ = kNone;                                          // piece
  bool fuse_unknown_ = false;

  std::vector<std::string> warnings_;
};

}  // namespace meg::tokenizer
