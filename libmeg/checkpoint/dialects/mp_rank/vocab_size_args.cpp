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

std::optional<int64_t> tokenizer_size_of_args(const MegatronCheckpoint& checkpoint) {
  const std::optional<int64_t> size = arg_as<int64_t>(checkpoint, "vocab_size");
  // Up to core 0.17 NullTokenizer's is without its end-of-document token. The next revision brought
  // an arg that names this token.
  const bool is_without_eod =
      arg_as<std::string>(checkpoint, "tokenizer_type") == "NullTokenizer" &&
      !checkpoint.described_arg("null_tokenizer_eod_id").has_value();
  if (!size.has_value() || !is_without_eod) return size;
  return *size < std::numeric_limits<int64_t>::max() ? *size + 1 : *size;
}

std::optional<int64_t> vocab_size_of_args(const MegatronCheckpoint& checkpoint) {
  if (const auto size = arg_as<int64_t>(checkpoint, kTrueVocabSizeArg)) return size;
  return tokenizer_size_of_args(checkpoint);
}

Status check_true_vocab_size(const MegatronCheckpoint& checkpoint, int64_t true_vocab_size,
                             int64_t rows) {
  if (true_vocab_size > rows) {
    return make_error(StatusCode::kInvalidArgument,
                      "true vocabulary size: expected at most the {} rows of the source's "
                      "embedding, found {}",
                      rows, true_vocab_size);
  }
  if (checkpoint.folder().format == CheckpointFormat::kHuggingFace) return Status();
  // A tokenizer may have fewer tokens than the table of the Hugging Face model that a run began
  // with.
  std::optional<int64_t> least = tokenizer_size_of_args(checkpoint);
  if (!least.has_value()) least = vocab_size_of_args(checkpoint);
  // Args that contradict the table state nothing.
  if (!least.has_value() || *least > rows || true_vocab_size >= *least) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "true vocabulary size: expected at least the {} tokens that the checkpoint's "
                    "args state, found {}",
                    *least, true_vocab_size);
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
