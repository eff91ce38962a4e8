#include "libmeg/app/load_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/app/internal/check_tokenizer.h"
#include "libmeg/app/open_run_tokenizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/check_architecture.h"
#include "libmeg/checkpoint/dialects/mp_rank/model_arguments.h"
#include "libmeg/checkpoint/dialects/mp_rank/open_weights.h"
#include "libmeg/libtorch/device.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/vocab_padding.h"
#include "libmeg/nn/gpt_options.h"
#include "libmeg/nn/load_weights.h"
#include "libmeg/nn/part_of_rank.h"

namespace meg::app {
namespace {

using Fields = std::map<std::string, megatron::FieldValue, std::less<>>;

/// The arguments of the model's shape in which a flag takes precedence over the checkpoint.
constexpr std::array<std::string_view, 7> kNoShape = {
    "max_position_embeddings", "make_vocab_size_divisible_by",
    "padded_vocab_size",       "seq_length",
    "transformer_impl",        "window_size",
    "window_attn_skip_freq"};

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The fields that give a model its shape.
const std::vector<std::string>& shape_fields() {
  static const std::vector<std::string> fields = [] {
    auto all = megatron::fields_read_by(
        [](const megatron::FieldLookup& args) { (void)model::GptConfig::from_fields(args); });
    std::erase_if(all, [](const std::string& name) { return contains(kNoShape, name); });
    return all;
  }();
  return fields;
}

/// The other fields of a model that its modules read.
const std::vector<std::string>& option_fields() {
  static const std::vector<std::string> fields = megatron::fields_read_by(
      [](const megatron::FieldLookup& args) { (void)nn::GptOptions::from_fields(args); });
  return fields;
}

/// What the checkpoint's files say, where its args lack it too.
Fields fields_of(const model::GptConfig& config) {
  return {{"num_layers", config.num_layers},
          {"hidden_size", config.hidden_size},
          {"ffn_hidden_size", config.ffn_hidden_size},
          {"kv_channels", config.kv_channels},
          {"num_attention_heads", config.num_attention_heads},
          {"group_query_attention", config.num_query_groups != config.num_attention_heads},
          {"num_query_groups", config.num_query_groups},
          {"swiglu", config.swiglu},
          {"normalization", config.normalization},
          {"softmax_type", config.softmax_type},
          {"qk_layernorm", config.qk_layernorm},
          {"add_bias_linear", config.add_bias_linear},
          {"add_qkv_bias", config.add_qkv_bias},
          {"position_embedding_type", config.position_embedding_type},
          {"use_rotary_position_embeddings", config.position_embedding_type == "rope"},
          {"untie_embeddings_and_output_weights", config.untie_embeddings_and_output_weights},
          {"max_position_embeddings", config.max_position_embeddings},
          {"make_vocab_size_divisible_by", config.make_vocab_size_divisible_by}};
}

std::optional<megatron::FieldValue> find(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::nullopt : std::optional(found->second);
}

/// Whether the argument is the model's own, and not how this run computes with it.
bool is_of_model(std::string_view name) {
  const megatron::ArgumentRow* row =
      megatron::find_argument(megatron::ArgumentFamily::kTraining, name);
  return row == nullptr || row->effect == megatron::Effect::kModel;
}

/// The model that the command line means, by Megatron's names.
///
/// Three sources, the first that speaks wins: a flag that was given; the checkpoint, for what
/// belongs to the model rather than to the run; the flags' defaults. Where a flag gives the model's
/// shape, all of the shape is taken from flags, and compared with the checkpoint afterwards.
class ModelOfRun {
 public:
  ModelOfRun(const ModelRequest& request, const checkpoint::MegatronCheckpoint& checkpoint)
      : args_(request.args), checkpoint_(checkpoint), found_(fields_of(checkpoint.config())) {
    const std::vector<std::string>& shape = shape_fields();
    shape_is_given_ =
        !request.use_checkpoint_args &&
        std::any_of(shape.begin(), shape.end(), [&](auto& name) { return args_.given(name); });
  }

  /// The rows of the embedding that this many tokens need, where a flag says how they are padded.
  Status pad_vocabulary(int64_t vocab_size) {
    constexpr std::string_view kStep = "make_vocab_size_divisible_by";
    if (!args_.given(kStep)) return Status();
    MEG_ASSIGN_OR_RETURN(
        padded_vocab_size_,
        model::padded_vocab_size(vocab_size, std::get<int64_t>(*args_.field(kStep)), 1));
    return Status();
  }

  std::optional<megatron::FieldValue> operator()(std::string_view name) const {
    if (name == "padded_vocab_size" && padded_vocab_size_) return *padded_vocab_size_;
    // Activations are computed again for a backward pass alone.
    if (name.starts_with("recompute_") || name == "distribute_saved_activations") {
      return std::nullopt;
    }
    // check_tokenizer_identity compares what matters of a tokenizer.
    if (name == "vocab_file") return std::nullopt;
    if (args_.given(name)) return args_.field(name);
    const bool is_shape = contains(shape_fields(), name);
    if (is_shape && shape_is_given_) return args_.field(name);
    // One flag for the type of positions overrules what the checkpoint says by the other.
    if (name == "use_rotary_position_embeddings" && args_.given("position_embedding_type")) {
      return std::nullopt;
    }
    const bool is_known = is_shape || contains(kNoShape, name) || contains(option_fields(), name);
    if (!is_known || !is_of_model(name)) return args_.field(name);
    if (const std::optional<megatron::FieldValue> value = find(found_, name)) return value;
    if (const std::optional<megatron::FieldValue> value = found_argument(name)) return value;
    return args_.field(name);
  }

 private:
  std::optional<megatron::FieldValue> found_argument(std::string_view name) const {
    const megatron::ArgumentRow* row =
        megatron::find_argument(megatron::ArgumentFamily::kTraining, name);
    return row == nullptr ? checkpoint_.arg(name) : checkpoint::argument_of(checkpoint_, *row);
  }

  const megatron::ArgumentValues& args_;
  const checkpoint::MegatronCheckpoint& checkpoint_;
  Fields found_;
  std::optional<int64_t> padded_vocab_size_;
  bool shape_is_given_ = false;
};

Result<int64_t> sequence_length_of(const ModelRequest& request, const model::GptConfig& config) {
  const int64_t positions = config.max_position_embeddings;
  const int64_t length = request.sequence_length.value_or(
      std::min(positions, config.most_positions().value_or(positions)));
  MEG_RETURN_IF_ERROR(config.check_positions("`seq_length`", length));
  if (length > 0) return length;
  return Status(StatusCode::kInvalidArgument,
                "`seq_length` is required: the checkpoint does not state a sequence length");
}

/// Padded where the ranks could not share them equally.
int64_t rows_for_ranks(int64_t rows, int64_t ranks) { return (rows + ranks - 1) / ranks * ranks; }

Result<nn::GptModel> read_model(const ModelRequest& request,
                                const checkpoint::MegatronCheckpoint& checkpoint,
                                model::GptConfig config, const megatron::FieldLookup& fields,
                                const parallel::ParallelState& ranks) {
  MEG_ASSIGN_OR_RETURN(nn::GptOptions options, nn::GptOptions::from_fields(fields));
  if (options.moe.expert_capacity_factor.has_value()) {
    return make_error(StatusCode::kUnsupported,
                      "`moe_expert_capacity_factor`: expected none, or below 0, where a text's "
                      "result must not depend on the others of its batch, as it does where experts "
                      "drop tokens, found {}",
                      *options.moe.expert_capacity_factor);
  }
  options.device = ranks.device();
  if (ranks.mesh().world_size() == 1) {
    MEG_ASSIGN_OR_RETURN(options.device, libtorch::device_of(request.device));
  }
  options.hidden_dropout = options.attention_dropout = 0;
  options.family = checkpoint.family();
  config.padded_vocab_size = rows_for_ranks(vocabulary_rows(checkpoint), ranks.tensor()->size());
  MEG_ASSIGN_OR_RETURN(nn::GptModel model,
                       nn::GptModel::create(config, options, nn::part_of_rank(ranks)));
  MEG_RETURN_IF_ERROR(nn::load_weights(checkpoint, model));
  model.set_training(false);
  return model;
}

std::string layout_of(const checkpoint::MegatronCheckpoint& checkpoint) {
  const int64_t chunks = checkpoint.virtual_pipeline_model_parallel_size();
  return fmt::format("{}, tensor {}, pipeline {}{}",
                     checkpoint::checkpoint_format_text(checkpoint.folder().format),
                     checkpoint.tensor_model_parallel_size(),
                     checkpoint.pipeline_model_parallel_size(),
                     chunks == 1 ? "" : fmt::format(", virtual pipeline {}", chunks));
}

}  // namespace

Result<LoadedModel> load_model(const ModelRequest& request, const parallel::ParallelState& ranks,
                               std::shared_ptr<const checkpoint::MegatronCheckpoint> opened) {
  MEG_ASSIGN_OR_RETURN(
      std::unique_ptr<tokenizer::Tokenizer> tokenizer,
      open_run_tokenizer(request.tokenizer, {.of_checkpoint = request.tokenizer_origin,
                                             .load = request.load,
                                             .ckpt_step = request.ckpt_step}));
  if (opened == nullptr) {
    MEG_ASSIGN_OR_RETURN(
        checkpoint::MegatronCheckpoint own,
        checkpoint::open_weights(request.load, request.args.given_lookup(), request.ckpt_step));
    opened = std::make_shared<const checkpoint::MegatronCheckpoint>(std::move(own));
  }
  const checkpoint::MegatronCheckpoint& checkpoint = *opened;
  ModelOfRun run(request, checkpoint);
  MEG_RETURN_IF_ERROR(run.pad_vocabulary(tokenizer->vocab_size()));
  const megatron::FieldLookup fields = [&run](std::string_view name) { return run(name); };
  MEG_RETURN_IF_ERROR(checkpoint::check_architecture(checkpoint, fields));
  MEG_RETURN_IF_ERROR(check_vocabulary_size(*tokenizer, request.tokenizer, checkpoint));
  if (!request.allow_other_tokenizer) {
    MEG_RETURN_IF_ERROR(check_tokenizer_identity(*tokenizer, request.tokenizer, checkpoint));
  }
  model::GptConfig config = checkpoint.config();
  MEG_ASSIGN_OR_RETURN(const model::GptConfig run_config, model::GptConfig::from_fields(fields));
  config.attention_window = run_config.attention_window;
  config.window_layers = run_config.window_layers;
  MEG_ASSIGN_OR_RETURN(const int64_t length, sequence_length_of(request, config));
  MEG_ASSIGN_OR_RETURN(nn::GptModel model,
                       read_model(request, checkpoint, std::move(config), fields, ranks));
  return LoadedModel{std::move(model), std::move(tokenizer), checkpoint.iteration(),
                     layout_of(checkpoint), length};
}

}  // namespace meg::app
