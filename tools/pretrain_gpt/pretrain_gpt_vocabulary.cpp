#include "tools/pretrain_gpt/pretrain_gpt_vocabulary.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "libmeg/app/open_run_tokenizer.h"
#include "libmeg/model/vocab_padding.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace meg::tools {
namespace {

Result<Vocabulary> vocabulary_of(const PretrainFlags& run, const train::PrintLine& print) {
  MEG_ASSIGN_OR_RETURN(const tokenizer::TokenizerOptions options, tokenizer_options(run.data));
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  app::TokenizerOrigin origin{.of_checkpoint = run.tokenizer_origin, .load = {}, .ckpt_step = {}};
  args.take("load", origin.load);
  args.take("ckpt_step", origin.ckpt_step);
  print(fmt::format("> building {} tokenizer ...", options.tokenizer_type));
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       app::open_run_tokenizer(options, origin));
  Vocabulary vocabulary;
  vocabulary.vocab_size = tokenizer->vocab_size();
  vocabulary.eod = tokenizer->eod().value_or(-1);
  vocabulary.pad = tokenizer::pad_of_datasets(*tokenizer, options);
  return vocabulary;
}

/// Checks --padded-vocab-size, which may also come from the checkpoint.
Result<Vocabulary> check_rows(const Vocabulary& vocabulary) {
  if (vocabulary.padded_vocab_size >= vocabulary.vocab_size) return vocabulary;
  return make_error(StatusCode::kInvalidArgument,
                    "--padded-vocab-size: expected at least the tokenizer's {} tokens, found {}",
                    vocabulary.vocab_size, vocabulary.padded_vocab_size);
}

}  // namespace

Result<Vocabulary> build_vocabulary(const PretrainFlags& run, const train::PrintLine& print) {
  MEG_ASSIGN_OR_RETURN(Vocabulary vocabulary, vocabulary_of(run, print));
  const std::optional<megatron::FieldValue> rows = run.args.field("padded_vocab_size");
  // Given, or taken from the checkpoint: then the table has this many rows, whatever the tokenizer
  // would pad to.
  if (const int64_t* given = rows.has_value() ? std::get_if<int64_t>(&*rows) : nullptr) {
    vocabulary.padded_vocab_size = *given;
    return check_rows(vocabulary);
  }
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  const int64_t step = args.required_size("make_vocab_size_divisible_by");
  MEG_RETURN_IF_ERROR(args.status());
  MEG_ASSIGN_OR_RETURN(
      vocabulary.padded_vocab_size,
      model::padded_vocab_size(vocabulary.vocab_size, step, run.data.tensor_model_parallel_size));
  print(fmt::format(" > padded vocab (size: {}) with {} dummy tokens (new size: {})",
                    vocabulary.vocab_size, vocabulary.padded_vocab_size - vocabulary.vocab_size,
                    vocabulary.padded_vocab_size));
  return vocabulary;
}

}  // namespace meg::tools
