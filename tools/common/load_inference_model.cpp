#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "libmeg/checkpoint/training/check_architecture.h"
#include "libmeg/model/vocab_padding.h"
#include "libmeg/nn/load_weights.h"
#include "tools/common/device_flag.h"
#include "tools/common/inference_flags.h"
#include "tools/common/open_weights.h"

namespace meg::tools {
namespace {

using Fields = std::map<std::string, FieldValue, std::less<>>;

/// The model's shape among Megatron's args.
constexpr std::array<std::string_view, 15> kShape = {"num_layers",
                                                     "hidden_size",
                                                     "ffn_hidden_size",
                                                     "kv_channels",
                                                     "num_attention_heads",
                                                     "group_query_attention",
                                                     "num_query_groups",
                                                     "swiglu",
                                                     "normalization",
                                                     "qk_layernorm",
                                                     "add_bias_linear",
                                                     "add_qkv_bias",
                                                     "position_embedding_type",
                                                     "use_rotary_position_embeddings",
                                                     "untie_embeddings_and_output_weights"};

/// What the command line says, and nothing that it leaves open.
Fields given_fields(const InferenceFlags& flags) {
  Fields given;
  const FieldLookup model = model_fields(flags.model);
  const auto take = [&](std::string_view name) {
    const std::optional<FieldValue> value = model(name);
    if (!value.has_value()) return;
    const bool* flag = std::get_if<bool>(&*value);
    const bool unset = name == "add_bias_linear";
    if (flag == nullptr || *flag != unset) given.emplace(name, *value);
  };
  std::for_each(kShape.begin(), kShape.end(), take);
  take("max_position_embeddings");
  take("make_vocab_size_divisible_by");
  if (given.contains("use_rotary_position_embeddings")) {
    given.insert_or_assign("position_embedding_type", std::string("rope"));
  }
  const auto number = [&](const char* name, const std::optional<double>& value) {
    if (value.has_value()) given.emplace(name, *value);
  };
  number("layernorm_epsilon", flags.layernorm_epsilon);
  number("norm_epsilon", flags.layernorm_epsilon);
  number("rotary_base", flags.rotary_base);
  number("rotary_percent", flags.rotary_percent);
  if (flags.rotary_interleaved) given.emplace("rotary_interleaved", true);
  if (flags.no_bias_gelu_fusion) given.emplace("bias_gelu_fusion", false);
  given.emplace("fp16", flags.fp16);
  given.emplace("bf16", flags.bf16);
  given.emplace("attention_backend", flags.attention_backend);
  given.emplace("attention_softmax_in_fp32", flags.attention_softmax_in_fp32);
  given.emplace("apply_query_key_layer_scaling", flags.apply_query_key_layer_scaling);
  given.emplace("recompute_granularity", std::monostate());
  given.emplace("recompute_method", std::monostate());
  given.emplace("seed", flags.seed);
  return given;
}

/// What the checkpoint's files say, where its args lack it too.
Fields fields_of(const GptConfig& config) {
  return {{"num_layers", config.num_layers},
          {"hidden_size", config.hidden_size},
          {"ffn_hidden_size", config.ffn_hidden_size},
          {"kv_channels", config.kv_channels},
          {"num_attention_heads", config.num_attention_heads},
          {"group_query_attention", config.num_query_groups != config.num_attention_heads},
          {"num_query_groups", config.num_query_groups},
          {"swiglu", config.swiglu},
          {"normalization", config.normalization},
          {"qk_layernorm", config.qk_layernorm},
          {"add_bias_linear", config.add_bias_linear},
          {"add_qkv_bias", config.add_qkv_bias},
          {"position_embedding_type", config.position_embedding_type},
          {"use_rotary_position_embeddings", config.position_embedding_type == "rope"},
          {"untie_embeddings_and_output_weights", config.untie_embeddings_and_output_weights},
          {"max_position_embeddings", config.max_position_embeddings},
          {"make_vocab_size_divisible_by", config.make_vocab_size_divisible_by}};
}

bool is_shape(std::string_view name) {
  return std::find(kShape.begin(), kShape.end(), name) != kShape.end();
}

std::optional<FieldValue> find(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::nullopt : std::optional(found->second);
}

/// The model that the command line means, by Megatron's names.
class ModelOfRun {
 public:
  ModelOfRun(const InferenceFlags& flags, Fields given, const MegatronCheckpoint& checkpoint)
      : checkpoint_(checkpoint), given_(std::move(given)), found_(fields_of(checkpoint.config())) {
    const bool any = std::any_of(kShape.begin(), kShape.end(),
                                 [&](std::string_view name) { return given_.contains(name); });
    shape_is_given_ = any && !flags.use_checkpoint_args;
  }

  /// The rows of the embedding that this many tokens need, where a flag says how they are padded.
  Status pad_vocabulary(int64_t vocab_size) {
    const std::optional<FieldValue> step = find(given_, "make_vocab_size_divisible_by");
    if (!step.has_value()) return Status();
    MEG_ASSIGN_OR_RETURN(const int64_t padded,
                         padded_vocab_size(vocab_size, std::get<int64_t>(*step), 1));
    given_.insert_or_assign("padded_vocab_size", padded);
    return Status();
  }

  std::optional<FieldValue> operator()(std::string_view name) const {
    if (const std::optional<FieldValue> value = find(given_, name)) return value;
    if (shape_is_given_ && is_shape(name)) return std::nullopt;
    if (const std::optional<FieldValue> value = find(found_, name)) return value;
    return checkpoint_.arg(name);
  }

 private:
  const MegatronCheckpoint& checkpoint_;
  Fields given_, found_;
  bool shape_is_given_ = false;
};

/// Rows of the embedding.
int64_t vocabulary_rows(const MegatronCheckpoint& checkpoint) {
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    if (parameter.placement == Placement::kEmbedding &&
        parameter.partition == Partition::kVocabulary) {
      return parameter.shape[0];
    }
  }
  return checkpoint.config().padded_vocab_size;
}

/// Rows that pad a vocabulary at most: Megatron's divisor on as many tensor-parallel ranks as
/// anyone has.
int64_t most_padding(const GptConfig& config) {
  constexpr int64_t kMostTensorRanks = 64;
  return std::max(config.make_vocab_size_divisible_by, int64_t{1}) * kMostTensorRanks;
}

/// Tokenizers of other types may count their tokens in another way.
bool has_same_type(const std::string& type, const MegatronCheckpoint& checkpoint) {
  const std::optional<FieldValue> found = checkpoint.arg("tokenizer_type");
  const std::string* name = found.has_value() ? std::get_if<std::string>(&*found) : nullptr;
  return name == nullptr || *name == type;
}

Status check_tokenizer(const Tokenizer& tokenizer, const std::string& type,
                       const MegatronCheckpoint& checkpoint) {
  const int64_t rows = vocabulary_rows(checkpoint);
  const std::string& folder = checkpoint.folder().folder;
  if (tokenizer.vocab_size() > rows) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: not the tokenizer of this checkpoint: expected at most {} tokens "
                      "(padded_vocab_size), found {}",
                      folder, rows, tokenizer.vocab_size());
  }
  if (rows - tokenizer.vocab_size() >= most_padding(checkpoint.config())) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: not the tokenizer of this checkpoint: expected more than {} tokens for "
                      "its {} rows, found {}",
                      folder, rows - most_padding(checkpoint.config()), rows,
                      tokenizer.vocab_size());
  }
  const std::optional<FieldValue> args = checkpoint.arg("vocab_size");
  const int64_t* expected = args.has_value() ? std::get_if<int64_t>(&*args) : nullptr;
  const bool is_comparable = expected != nullptr && has_same_type(type, checkpoint);
  if (!is_comparable || *expected == tokenizer.vocab_size()) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: not the tokenizer of this checkpoint: expected {} tokens (vocab_size), "
                    "found {}",
                    folder, *expected, tokenizer.vocab_size());
}

Result<int64_t> sequence_length_of(const InferenceFlags& flags, const GptConfig& config) {
  const int64_t length = flags.sequence_length.value_or(config.max_position_embeddings);
  const bool is_bounded = config.position_embedding_type == "learned_absolute";
  if (is_bounded && length > config.max_position_embeddings) {
    return make_error(StatusCode::kInvalidArgument,
                      "--seq-length: expected at most max_position_embeddings {}, found {}",
                      config.max_position_embeddings, length);
  }
  if (length > 0) return length;
  return Status(StatusCode::kInvalidArgument,
                "--seq-length is required: the checkpoint does not say how long sequences are");
}

Result<nn::GptModel> read_model(const InferenceFlags& flags, const MegatronCheckpoint& checkpoint,
                                const FieldLookup& fields) {
  MEG_ASSIGN_OR_RETURN(nn::GptOptions options, nn::GptOptions::from_fields(fields));
  MEG_ASSIGN_OR_RETURN(options.device, device_of(flags.device));
  options.hidden_dropout = options.attention_dropout = 0;
  options.family = checkpoint.family();
  GptConfig config = checkpoint.config();
  config.padded_vocab_size = vocabulary_rows(checkpoint);
  MEG_ASSIGN_OR_RETURN(nn::GptModel model, nn::GptModel::create(config, options));
  MEG_RETURN_IF_ERROR(nn::load_weights(checkpoint, model));
  model.set_training(false);
  return model;
}

}  // namespace

Result<LoadedModel> load_inference_model(const InferenceFlags& flags) {
  MEG_RETURN_IF_ERROR(check_inference_flags(flags));
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(flags.tokenizer));
  Fields given = given_fields(flags);
  MEG_ASSIGN_OR_RETURN(
      const MegatronCheckpoint checkpoint,
      open_weights(flags.load, [&](std::string_view name) { return find(given, name); }));
  ModelOfRun run(flags, given, checkpoint);
  MEG_RETURN_IF_ERROR(run.pad_vocabulary(tokenizer->vocab_size()));
  const FieldLookup fields = [&run](std::string_view name) { return run(name); };
  MEG_RETURN_IF_ERROR(check_architecture(checkpoint, fields));
  MEG_RETURN_IF_ERROR(check_tokenizer(*tokenizer, flags.tokenizer.tokenizer_type, checkpoint));
  MEG_ASSIGN_OR_RETURN(const int64_t length, sequence_length_of(flags, checkpoint.config()));
  MEG_ASSIGN_OR_RETURN(nn::GptModel model, read_model(flags, checkpoint, fields));
  return LoadedModel{std::move(model), std::move(tokenizer), checkpoint.iteration(), length};
}

}  // namespace meg::tools
