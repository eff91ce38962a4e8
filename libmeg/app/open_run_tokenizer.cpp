#include "libmeg/app/open_run_tokenizer.h"

#include <fmt/format.h>

#include <string_view>

#include "libmeg/checkpoint/dialects/mp_rank/open_weights.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace meg::app {
namespace {

/// "`tokenizer_type` Llama2Tokenizer `tokenizer_model` t.model", as far as the args name it.
std::string tokenizer_of_args(const checkpoint::MegatronCheckpoint& checkpoint) {
  std::string fields;
  for (const char* field : {"tokenizer_type", "tokenizer_model", "vocab_file", "merge_file"}) {
    const std::optional<megatron::FieldValue> value = checkpoint.described_arg(field);
    const std::string* text = value.has_value() ? std::get_if<std::string>(&*value) : nullptr;
    if (text == nullptr || text->empty()) continue;
    fields += fmt::format("{}`{}` {}", fields.empty() ? "" : " ", field,
                          text::printable_name(*text, /*limit=*/200));
  }
  return fields;
}

}  // namespace

Result<std::unique_ptr<tokenizer::Tokenizer>> open_run_tokenizer(
    const tokenizer::TokenizerOptions& options, const TokenizerOrigin& origin) {
  Result<std::unique_ptr<tokenizer::Tokenizer>> tokenizer = tokenizer::open_tokenizer(options);
  if (tokenizer.has_value()) return tokenizer;
  if (!origin.of_checkpoint.empty()) return tokenizer.error().with_prefix(origin.of_checkpoint);
  const bool lacks_options = tokenizer.error().code() == StatusCode::kInvalidArgument;
  if (!lacks_options || !origin.load.has_value()) return tokenizer;
  // Only for the message: what is wrong with the checkpoint is said where it is loaded.
  const auto checkpoint = checkpoint::open_weights(*origin.load, {}, origin.ckpt_step);
  const std::string fields = checkpoint.has_value() ? tokenizer_of_args(*checkpoint) : "";
  if (fields.empty()) return tokenizer;
  return make_error(StatusCode::kInvalidArgument, "{}; the checkpoint's args say {}",
                    tokenizer.error().message(), fields);
}

}  // namespace meg::app
