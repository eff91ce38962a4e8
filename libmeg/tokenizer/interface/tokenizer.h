#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/token_buffer.h"

namespace meg::tokenizer {

/// Encodes texts one after another; keeps caches, so it belongs to one thread.
/// Must not outlive the Tokenizer that made it.
class TokenEncoder {
 public:
  virtual ~TokenEncoder() = default;

  /// Appends text's ids to `tokens`, whose dtype is the one the encoder was made for.
  /// text: valid UTF-8 with text::kTextPadding readable bytes after it. kInvalidArgument for a text
  /// that has no ids (NullTokenizer only accepts numbers), kResourceExhausted if a pattern of the
  /// tokenizer takes too many steps; after an error the appended ids are undefined.
  virtual Status encode(std::string_view text, TokenBuffer& tokens) = 0;
};

/// A token that is only matched as a whole, never as a part of ordinary words.
struct SpecialToken {
  std::string text;
  int32_t id;
};

/// Text to token ids and back. Immutable and safe to share between threads.
/// Mirrors Megatron-LM megatron/tokenizer/tokenizer.py: AbstractTokenizer.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Number of tokens, without the model's padding.
  virtual int64_t vocab_size() const = 0;

  /// Id of the end-of-document token; empty where the vocabulary has none.
  virtual std::optional<int32_t> eod() const = 0;

  /// Ids of the tokens that begin a text and that fill up a sequence; empty where there is none.
  virtual std::optional<int32_t> bos() const { return std::nullopt; }

  virtual std::optional<int32_t> pad() const { return std::nullopt; }

  /// The special tokens by ascending id.
  virtual std::vector<SpecialToken> special_tokens() const { return {}; }

  /// The bytes that the token adds to a decoded text, which need not be complete characters; empty
  /// for an id that is not a token.
  virtual std::optional<std::string_view> token_bytes(int32_t id) const = 0;

  /// Whether decode() returns the concatenated bytes of the tokens.
  virtual bool joins_token_bytes() const { return false; }

  /// token_bytes() of an id of a text; `index` is its place there. kOutOfRange, which names both,
  /// for an id that is no token.
  Result<std::string_view> bytes_of_token(int32_t id, size_t index) const;

  /// The largest id that encode can give; it decides which dtypes hold the ids.
  virtual int32_t max_id() const = 0;

  /// dtype: kUint16 (only where max_id() <= 65535) or kInt32.
  virtual std::unique_ptr<TokenEncoder> new_encoder(DType dtype) const = 0;

  /// The text of ids; bytes that are not UTF-8 become U+FFFD as in Python's errors="replace".
  /// kOutOfRange for an id outside the vocabulary.
  Result<std::string> decode(std::span<const int32_t> ids) const { return decode_text(ids, false); }

  /// The part of decode() that does not depend on later ids: its beginning, in complete characters.
  /// decode_stream.h returns a text piece by piece.
  Result<std::string> decode_beginning(std::span<const int32_t> ids) const {
    return decode_text(ids, true);
  }

  /// 32 hexadecimal digits, a digest of the special tokens and rules(), equal for tokenizers whose
  /// ids mean the same and that split texts in the same way, whatever files they come from. It does
  /// not include tokens that a revision of Megatron adds around a text, such as <s>, nor whether
  /// the text of a special token becomes that token. nullopt for NullTokenizer, whose ids can mean
  /// anything.
  std::optional<std::string> identity() const;

  /// One text, without the padding rule. kInvalidArgument where text is not UTF-8 or has no ids.
  Result<std::vector<int32_t>> encode(std::string_view text) const;

  /// Warnings about the tokenizer's files, one line each; usually empty.
  const std::vector<std::string>& warnings() const { return warnings_; }

 protected:
  /// decode(), or with more_follow decode_beginning().
  virtual Result<std::string> decode_text(std::span<const int32_t> ids, bool more_follow) const = 0;

  /// Everything that determines ids besides the special tokens, including all other tokens with
  /// their ids, in a form that differs if ids do; nullopt: the tokenizer has no identity.
  virtual std::optional<std::string> rules() const { return std::nullopt; }

  std::vector<std::string> warnings_;
};

/// decode_text() of a tokenizer that joins its tokens' bytes.
Result<std::string> decode_token_bytes(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                       bool more_follow);

/// The dtype of preprocess_data's .bin: uint16 if the vocabulary has fewer than 65500 tokens,
/// otherwise int32. Mirrors Megatron-LM megatron/core/datasets/indexed_dataset.py:
/// DType.optimal_dtype.
DType optimal_dtype(int64_t vocab_size);

}  // namespace meg::tokenizer
