#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_args.h"

#include <string_view>

#include "libmeg/checkpoint/dialects/huggingface/internal/config_rows.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/shape_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"

namespace meg::checkpoint {

TrainingArgs huggingface_args(const HuggingFaceCheckpoint& checkpoint) {
  TrainingArgs args;
  const auto set = [&args](std::string_view name, const megatron::FieldValue& value) {
    args.set(name, arg_value(value));
  };
  for (const auto& [name, value] : checkpoint.config.fields) {
    args.set(name, whole_numbers_arg(value));
  }
  set_shape_args(checkpoint.model, &args);
  set(kTrueVocabSizeArg, checkpoint.model.padded_vocab_size);
  // The layout of one rank, which reshaping changes.
  set_layout_args({}, model::NameFamily::kMcoreLocal, &args);
  // Revisions before core have it by its older name.
  args.set("layernorm_epsilon", *args.find("norm_epsilon"));
  set_dtype_args(checkpoint.dtype, &args);
  const bool is_gpt2 = checkpoint.config.architecture.bit == kGpt2;
  set("tokenizer_type", is_gpt2 ? "GPT2BPETokenizer" : "HuggingFaceTokenizer");
  for (const char* name : {"iteration", "consumed_train_samples", "consumed_valid_samples"}) {
    set(name, int64_t{0});
  }
  return args;
}

}  // namespace meg::checkpoint
