#include "libmeg/checkpoint/dialects/mp_rank/check_architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/model_arguments.h"
#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"
#include "libmeg/model/gpt_extensions.h"

// Lists every difference, not the first: a wrong shape is most often several wrong flags at once.

namespace meg::checkpoint {
namespace {

/// Arguments, by how they begin, that mean nothing in a model without the part that they are of.
/// Such an argument has a default that revisions changed; without the part it would be a difference
/// without meaning.
constexpr std::pair<std::string_view, std::string_view> kPartOf[] = {
    {"moe_", "num_experts"},
    {"kv_lora_rank", "multi_latent_attention"},
    {"mscale", "multi_latent_attention"},
    {"q_lora_rank", "multi_latent_attention"},
    {"qk_head_dim", "multi_latent_attention"},
    {"qk_pos_emb_head_dim", "multi_latent_attention"},
    {"rotary_scaling_factor", "multi_latent_attention"},
    {"v_head_dim", "multi_latent_attention"}};

/// What changes how a run trains a model, not what the model computes of a token by itself: it may
/// go on with others, as in Megatron.
constexpr std::string_view kOfRun[] = {
    // The two forms of GELU are near each other (and models with a gate have neither).
    "bias_gelu_fusion",
    "moe_aux_loss_coeff",
    "moe_expert_capacity_factor",
    "moe_pad_expert_input_to_capacity",
    "moe_router_bias_update_rate",
    "moe_router_load_balancing_type",
    "moe_token_drop_policy",
    "moe_z_loss_coeff"};

class Comparison {
 public:
  Comparison(const MegatronCheckpoint& checkpoint, const megatron::FieldLookup& run,
             std::string_view reason)
      : checkpoint_(checkpoint), run_(run), reason_(reason) {}

  Status compare() {
    Result<model::GptConfig> config = model::GptConfig::from_fields(run_);
    if (!config.has_value()) return config.error().with_prefix("args");
    compare_shapes(*config, checkpoint_.config());
    compare_vocabulary(*config, checkpoint_.config());
    compare_arguments();
    compare_extensions();
    if (tokenizer_is_known()) compare("tokenizer_type", checkpoint_.arg("tokenizer_type"));
    if (differences_.empty()) return Status();
    return make_error(StatusCode::kInvalidArgument, "{}: {}: args: {}", checkpoint_.folder().folder,
                      reason_, differences_);
  }

 private:
  void compare_values(std::string_view name, const megatron::FieldValue& expected,
                      const megatron::FieldValue& found) {
    if (megatron::same_field(expected, found)) return;
    differences_ += fmt::format("{}{}: expected {}, found {}", differences_.empty() ? "" : "; ",
                                name, megatron::field_text(expected), megatron::field_text(found));
  }

  void compare_shapes(const model::GptConfig& run, const model::GptConfig& found) {
    compare_values("num_layers", run.num_layers, found.num_layers);
    compare_values("hidden_size", run.hidden_size, found.hidden_size);
    compare_values("ffn_hidden_size", run.ffn_hidden_size, found.ffn_hidden_size);
    compare_values("num_attention_heads", run.num_attention_heads, found.num_attention_heads);
    compare_values("kv_channels", run.kv_channels, found.kv_channels);
    compare_values("num_query_groups", run.num_query_groups, found.num_query_groups);
    compare_values("position_embedding_type", run.position_embedding_type,
                   found.position_embedding_type);
    if (run.position_embedding_type == "learned_absolute") {
      compare_values("max_position_embeddings", run.max_position_embeddings,
                     found.max_position_embeddings);
    }
    compare_text("normalization", run.normalization, found.normalization);
    compare_values("swiglu", run.swiglu, found.swiglu);
    compare_values("gated_linear_unit", run.gated_linear_unit, found.gated_linear_unit);
    compare_values("add_bias_linear", run.add_bias_linear, found.add_bias_linear);
    compare_values("add_qkv_bias", run.has_qkv_bias(), found.has_qkv_bias());
    compare_values("qk_layernorm", run.qk_layernorm, found.qk_layernorm);
    compare_text("softmax_type", run.softmax_type, found.softmax_type);
    compare_values("untie_embeddings_and_output_weights", run.untie_embeddings_and_output_weights,
                   found.untie_embeddings_and_output_weights);
    compare_windows(run, found);
    compare_layers(run, found);
  }

  /// An arg that is no text was read as none: it is not the run's.
  void compare_text(std::string_view name, const std::string& expected, const std::string& found) {
    const auto said = checkpoint_.described_arg(name).value_or(megatron::FieldValue());
    compare_values(name, expected, said == megatron::FieldValue() ? found : said);
  }

  /// Inside its window attention sees all tokens: such a run need not say that there is one.
  void compare_windows(const model::GptConfig& run, const model::GptConfig& found) {
    if (!found.attention_window.has_value() || run.attention_window == found.attention_window) {
      return;
    }
    const int64_t left = *found.attention_window - 1;
    if (run.attention_window.has_value()) {
      compare_values("window_size", *run.attention_window - 1, left);
    } else if (run.seq_length > *found.attention_window) {
      compare_values("window_size", megatron::FieldValue(), left);
    }
  }

  void compare_layers(const model::GptConfig& run, const model::GptConfig& found) {
    const auto text = [](const std::vector<bool>& layers) {
      std::string words;
      for (const bool layer : layers) words += layer ? "1" : "0";
      return words.empty() ? megatron::FieldValue() : megatron::FieldValue(words);
    };
    compare_values("no_rope_freq", text(run.layers_without_rope), text(found.layers_without_rope));
    if (found.num_experts.has_value()) {
      compare_values("moe_layer_freq", text(run.moe_layers), text(found.moe_layers));
    }
    if (run.attention_window.has_value() && found.attention_window.has_value()) {
      compare_values("window_attn_skip_freq", text(run.window_layers), text(found.window_layers));
    }
  }

  /// Some true size of the vocabulary pads to this run's size and to the checkpoint's.
  ///
  /// Padding rounds up to a multiple of divisor and tensor-parallel size. Sizes of a run and a
  /// checkpoint may differ and still be of one tokenizer, where their intervals of true sizes meet.
  void compare_vocabulary(const model::GptConfig& run, const model::GptConfig& found) {
    const auto tensor_size = run_("tensor_model_parallel_size");
    const int64_t* size = tensor_size ? std::get_if<int64_t>(&*tensor_size) : nullptr;
    const int64_t run_step = run.make_vocab_size_divisible_by * (size != nullptr ? *size : 1);
    const int64_t found_step =
        found.make_vocab_size_divisible_by * checkpoint_.tensor_model_parallel_size();
    // 0: one side does not know its vocabulary.
    if (run.padded_vocab_size == 0 || found.padded_vocab_size == 0) return;
    // The true size is above `padded - step` and at most `padded`; both intervals together are
    // (least, most].
    const int64_t most = std::min(run.padded_vocab_size, found.padded_vocab_size);
    const int64_t least =
        std::max(run.padded_vocab_size - run_step, found.padded_vocab_size - found_step);
    // With the same step a size pads in one way only.
    const bool same_steps = run_step == found_step;
    if (!same_steps && least < most) return;
    compare_values("padded_vocab_size", run.padded_vocab_size, found.padded_vocab_size);
  }

  void compare_arguments() {
    for (const megatron::ArgumentRow* row : model_arguments()) {
      if (has_meaning(row->dest)) compare(row->dest, argument_of(checkpoint_, *row));
    }
  }

  void compare_extensions() {
    for (const model::ExtensionField& field : model::extension_fields()) {
      const auto value = [&](const std::optional<megatron::FieldValue>& said) {
        const bool is_said = said.has_value() && *said != megatron::FieldValue();
        return is_said ? *said : field.otherwise;
      };
      compare_values(field.name, value(run_(field.name)), value(checkpoint_.arg(field.name)));
    }
  }

  bool has_meaning(std::string_view dest) const {
    if (std::ranges::count(kOfRun, dest) > 0) return false;
    for (const auto& [start, part] : kPartOf) {
      if (!dest.starts_with(start)) continue;
      const megatron::FieldValue found = checkpoint_.arg(part).value_or(megatron::FieldValue());
      return found != megatron::FieldValue() && found != megatron::FieldValue(false);
    }
    return true;
  }

  bool tokenizer_is_known() const {
    const std::optional<megatron::FieldValue> file = run_("vocab_file");
    return file.has_value() && !std::holds_alternative<std::monostate>(*file);
  }

  void compare(std::string_view name, const std::optional<megatron::FieldValue>& found) {
    const std::optional<megatron::FieldValue> expected = run_(name);
    // None: Megatron's default of that revision, whatever that was.
    if (!expected.has_value() || found.value_or(megatron::FieldValue()) == megatron::FieldValue())
      return;
    compare_values(name, *expected, *found);
  }

  const MegatronCheckpoint& checkpoint_;
  const megatron::FieldLookup& run_;
  std::string_view reason_;
  std::string differences_;
};

}  // namespace

Status check_architecture(const MegatronCheckpoint& checkpoint, const megatron::FieldLookup& run,
                          std::string_view reason) {
  return Comparison(checkpoint, run, reason).compare();
}

void keep_unsaid_args(const MegatronCheckpoint& checkpoint, TrainingArgs* args) {
  const auto size_of = [](const std::optional<megatron::FieldValue>& value) {
    const int64_t* size = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
    return size == nullptr ? int64_t{0} : *size;
  };
  const int64_t tokens = size_of(checkpoint.arg(kTrueVocabSizeArg));
  const bool has_rows = tokens > 0 && tokens <= size_of(args->field("padded_vocab_size"));
  if (has_rows && tokens >= size_of(args->field("vocab_size"))) {
    args->set(kTrueVocabSizeArg, {tokens});
  }
  const std::optional<int64_t> window = checkpoint.config().attention_window;
  if (!window.has_value()) return;
  args->set("window_size", window_size_arg(*window));
  if (const auto layers = checkpoint.described_arg("window_attn_skip_freq")) {
    args->set("window_attn_skip_freq", whole_numbers_arg(*layers));
  }
}

}  // namespace meg::checkpoint
