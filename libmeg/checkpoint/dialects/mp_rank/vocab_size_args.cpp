#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"

#include <limits>
#include <string>
#include <variant>

#include "libmeg/model/vocab_padding.h"

namespace meg::checkpoint {
namespace {

template <class T>
std::optional<T> arg_as(const MegatronCheckpoint& checkpoint, const char* name) {
  const std::optional<megatron::FieldValue> value = checkpoint.arg(name);
  const T* found = value.has_value() ? std::get_if<T>(&*value) : nullptr;
  return found == nullptr ? std::nullopt : std::optional(*found);
}

}  // namespace

std::optional<int64_t> vocab_size_of_args(const MegatronCheckpoint& checkpoint) {
  if (const auto size = arg_as<int64_t>(checkpoint, kTrueVocabSizeArg)) return size;
  const std::optional<int64_t> size = arg_as<int64_t>(checkpoint, "vocab_size");
  // NullTokenizer's is without its end-of-document token.
  const bool is_null = arg_as<std::string>(checkpoint, "tokenizer_type") == "NullTokenizer";
  if (!size.has_value() || !is_null) return size;
  return *size < std::numeric_limits<int64_t>::max() ? *size + 1 : *size;
}

std::optional<int64_t> unpadded_vocab_size(const MegatronCheckpoint& checkpoint, int64_t rows) {
  const std::optional<int64_t> size = vocab_size_of_args(checkpoint);
  if (!size.has_value() || *size == rows) return size;
  const model::GptConfig& config = checkpoint.config();
  for (int64_t ranks = 1; ranks <= config.num_attention_heads; ++ranks) {
    if (config.num_attention_heads % ranks != 0) continue;
    const Result<int64_t> padded =
        model::padded_vocab_size(*size, config.make_vocab_size_divisible_by, ranks);
    if (padded.has_value() && *padded == rows) return size;
  }
  return std::nullopt;
}

}  // namespace meg::checkpoint
