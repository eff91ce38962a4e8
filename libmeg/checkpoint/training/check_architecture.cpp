#include "libmeg/checkpoint/training/check_architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "libmeg/core/printable.h"

namespace meg {
namespace {

std::string text_of(int64_t value) { return std::to_string(value); }

std::string text_of(bool value) { return value ? "True" : "False"; }

std::string text_of(const std::string& value) { return printable(value); }

std::string text_of(const FieldValue& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) return text_of(*boolean);
  if (const auto* integer = std::get_if<int64_t>(&value)) return text_of(*integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&value)) return text_of(*text);
  return "None";
}

/// As Python compares: 10000 equals 10000.0.
bool are_equal(const FieldValue& a, const FieldValue& b) {
  const auto number = [](const FieldValue& value) -> std::optional<double> {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    return std::nullopt;
  };
  const std::optional<double> left = number(a), right = number(b);
  return left.has_value() && right.has_value() ? *left == *right : a == b;
}

class Comparison {
 public:
  Comparison(const MegatronCheckpoint& checkpoint, const FieldLookup& run)
      : checkpoint_(checkpoint), run_(run) {}

  Status compare() {
    Result<GptConfig> config = GptConfig::from_fields(run_);
    if (!config.has_value()) return config.error().with_prefix("args");
    compare_shapes(*config, checkpoint_.config());
    compare_vocabulary(*config, checkpoint_.config());
    for (const char* name : {"rotary_percent", "rotary_base", "rotary_interleaved",
                             "apply_layernorm_1p", "openai_gelu", "squared_relu"}) {
      compare_field(name);
    }
    if (tokenizer_is_known()) compare_field("tokenizer_type");
    if (differences_.empty()) return Status();
    return make_error(StatusCode::kInvalidArgument, "{}: not the model of this run: args: {}",
                      checkpoint_.folder().folder, differences_);
  }

 private:
  template <class T>
  void compare_values(std::string_view name, const T& expected, const T& found) {
    if (expected == found) return;
    differences_ += fmt::format("{}{}: expected {}, found {}", differences_.empty() ? "" : "; ",
                                name, text_of(expected), text_of(found));
  }

  void compare_shapes(const GptConfig& run, const GptConfig& found) {
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
    compare_values("normalization", run.normalization, found.normalization);
    compare_values("swiglu", run.swiglu, found.swiglu);
    compare_values("add_bias_linear", run.add_bias_linear, found.add_bias_linear);
    compare_values("add_qkv_bias", run.add_bias_linear || run.add_qkv_bias,
                   found.add_bias_linear || found.add_qkv_bias);
    compare_values("qk_layernorm", run.qk_layernorm, found.qk_layernorm);
    compare_values("untie_embeddings_and_output_weights", run.untie_embeddings_and_output_weights,
                   found.untie_embeddings_and_output_weights);
  }

  /// Some true size of the vocabulary pads to this run's size and to the checkpoint's.
  void compare_vocabulary(const GptConfig& run, const GptConfig& found) {
    const auto tensor_size = run_("tensor_model_parallel_size");
    const int64_t* size = tensor_size ? std::get_if<int64_t>(&*tensor_size) : nullptr;
    const int64_t run_step = run.make_vocab_size_divisible_by * (size != nullptr ? *size : 1);
    const int64_t found_step =
        found.make_vocab_size_divisible_by * checkpoint_.tensor_model_parallel_size();
    if (run.padded_vocab_size == 0 || found.padded_vocab_size == 0) return;
    const int64_t most = std::min(run.padded_vocab_size, found.padded_vocab_size);
    const int64_t least =
        std::max(run.padded_vocab_size - run_step, found.padded_vocab_size - found_step);
    const bool same_steps = run_step == found_step;
    if (!same_steps && least < most) return;
    compare_values("padded_vocab_size", run.padded_vocab_size, found.padded_vocab_size);
  }

  bool tokenizer_is_known() const {
    const std::optional<FieldValue> file = run_("vocab_file");
    return file.has_value() && !std::holds_alternative<std::monostate>(*file);
  }

  void compare_field(const char* name) {
    const std::optional<FieldValue> expected = run_(name);
    const std::optional<FieldValue> found = checkpoint_.arg(name);
    if (!expected.has_value() || !found.has_value() || are_equal(*expected, *found)) return;
    compare_values(name, *expected, *found);
  }

  const MegatronCheckpoint& checkpoint_;
  const FieldLookup& run_;
  std::string differences_;
};

}  // namespace

Status check_architecture(const MegatronCheckpoint& checkpoint, const FieldLookup& run) {
  return Comparison(checkpoint, run).compare();
}

}  // namespace meg
