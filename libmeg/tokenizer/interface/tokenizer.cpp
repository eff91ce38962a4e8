#include "libmeg/tokenizer/interface/tokenizer.h"

#include <simdjson.h>

#include <array>
#include <cstddef>

#include "libmeg/base/bytes.h"
#include "libmeg/io/digest.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/interface/encode_text.h"

namespace meg::tokenizer {

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    const size_t at = text::find_invalid_utf8(text);
    return make_error(StatusCode::kInvalidArgument, "text: byte {}: expected UTF-8, found {}", at,
                      text::printable(text.substr(at, 4)));
  }
  return encode_text(*new_encoder(DType::kInt32), text);
}

std::optional<std::string> Tokenizer::identity() const {
  const std::optional<std::string> own = rules();
  if (!own) return std::nullopt;
  io::Digest digest;
  const auto add_number = [&digest](int64_t number) {
    std::array<std::byte, sizeof(number)> bytes;
    store_le(bytes.data(), number);
    digest.add(bytes);
  };
  const auto add = [&](int64_t number, std::string_view text) {
    add_number(number);
    add_number(std::ssize(text));
    digest.add(std::as_bytes(std::span(text)));
  };
  for (const SpecialToken& token : special_tokens()) add(token.id, token.text);
  add(-1, *own);
  return digest.hex();
}

Result<std::string_view> Tokenizer::bytes_of_token(int32_t id, size_t index) const {
  if (const std::optional<std::string_view> bytes = token_bytes(id)) return *bytes;
  return make_error(StatusCode::kOutOfRange,
                    "token {}: expected an id of the vocabulary (largest {}), found {}", index,
                    max_id(), id);
}

Result<std::string> decode_token_bytes(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                       bool more_follow) {
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    MEG_ASSIGN_OR_RETURN(const std::string_view token, tokenizer.bytes_of_token(ids[i], i));
    bytes += token;
  }
  if (more_follow) bytes.resize(text::size_of_whole_characters(bytes));
  std::string text;
  text.reserve(bytes.size());
  text::append_replacing_invalid_utf8(bytes, text);
  return text;
}

DType optimal_dtype(int64_t vocab_size) {
  // Megatron's bound (IndexedDataset's DType.optimal_dtype), not 65536: the type decides the bytes
  // of the dataset.
  return vocab_size < 65500 ? DType::kUint16 : DType::kInt32;
}

}  // namespace meg::tokenizer
