#include "tools/pretrain_gpt/pretrain_gpt_args.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "libmeg/logging/log_lines.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/model/gpt_extensions.h"
#include "libmeg/model/layer_lists.h"
#include "libmeg/text/json/python_float.h"

namespace meg::tools {
namespace {

/// The class of the weights' elements.
checkpoint::ArgValue params_dtype(const megatron::ArgumentValues& args) {
  const megatron::FieldLookup fields = args.lookup();
  const bool fp16 = fields("fp16") == megatron::FieldValue(true),
             bf16 = fields("bf16") == megatron::FieldValue(true);
  return {checkpoint::ArgValue::Global{"torch", fp16 ? "float16" : bf16 ? "bfloat16" : "float32"}};
}

/// What validate_args and the initialization add or overwrite.
void set_derived(checkpoint::TrainingArgs& args, const model::GptConfig& config) {
  args.set("ffn_hidden_size", {config.ffn_hidden_size});
  args.set("kv_channels", {config.kv_channels});
  args.set("num_query_groups", {config.num_query_groups});
  args.set("max_position_embeddings", {config.max_position_embeddings});
  args.set("position_embedding_type", {config.position_embedding_type});
  args.set("add_position_embedding", {config.position_embedding_type == "learned_absolute"});
  args.set("make_vocab_size_divisible_by", {config.make_vocab_size_divisible_by});
  if (config.attention_window.has_value()) {
    args.set("window_size", checkpoint::window_size_arg(*config.attention_window));
  }
  for (const std::string_view name : model::kLayerListFields) {
    const std::optional<megatron::FieldValue> value = args.field(name);
    if (!value.has_value()) continue;
    args.set(name,
             checkpoint::whole_numbers_arg(model::evaluated_layer_list(*value, config.num_layers)));
  }
}

/// A checkpoint has a whole optimizer, also where ranks share it.
void set_layout(checkpoint::TrainingArgs& args, const parallel::ParallelState& ranks) {
  args.set("use_distributed_optimizer", {false});
  if (ranks.tensor()->size() == 1) args.set("sequence_parallel", {false});
  args.set("virtual_pipeline_model_parallel_size", {});
  args.set("data_parallel_size", {int64_t{ranks.data()->size()}});
  args.set("world_size", {int64_t{ranks.mesh().world_size()}});
  args.set("rank", {int64_t{0}});
}

/// What Python prints.
struct PythonText {
  bool is_quoted = false;  ///< A text inside a list.

  std::string operator()(std::monostate) const { return "None"; }

  std::string operator()(bool value) const { return value ? "True" : "False"; }

  std::string operator()(int64_t value) const { return std::to_string(value); }

  std::string operator()(double value) const {
    return std::isfinite(value) ? text::python_float_text(value) : fmt::format("{}", value);
  }

  std::string operator()(const std::string& value) const {
    return is_quoted ? fmt::format("'{}'", value) : value;
  }

  std::string operator()(const checkpoint::ArgValue::List& values) const {
    std::string list;
    for (const checkpoint::ArgValue& value : values) {
      list += (list.empty() ? "" : ", ") + std::visit(PythonText{true}, value.value);
    }
    return "[" + list + "]";
  }

  std::string operator()(const checkpoint::ArgValue::Global& global) const {
    return global.module + "." + global.name;
  }

  std::string operator()(const checkpoint::ArgValue::EnumMember& member) const {
    return (*this)(member.type);
  }
};

}  // namespace

std::vector<std::string> arguments_lines(const checkpoint::TrainingArgs& args) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : args.entries()) {
    texts.emplace_back(name, std::visit(PythonText(), value.value));
  }
  return logging::arguments_lines(texts);
}

checkpoint::TrainingArgs saved_args(const PretrainFlags& run, const samples::DataRun& data,
                                    const model::GptConfig& config, const Vocabulary& vocabulary,
                                    const parallel::ParallelState& ranks) {
  checkpoint::TrainingArgs args;
  for (const megatron::ArgumentRow& row :
       megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    // Args of other revisions would be arguments that this one does not know.
    if (!megatron::is_of_revision(row, data.config.version)) continue;
    const std::optional<megatron::FieldValue> value = run.args.field(row.dest);
    if (value.has_value()) args.set(row.dest, checkpoint::arg_value(*value));
  }
  for (const model::ExtensionField& field : model::extension_fields()) {
    const std::optional<megatron::FieldValue> value = run.args.field(field.name);
    if (value.has_value()) args.set(field.name, checkpoint::arg_value(*value));
  }
  set_derived(args, config);
  set_layout(args, ranks);
  args.set("params_dtype", params_dtype(run.args));
  // NullTokenizer's stays as the flag says it, from which each revision makes another number of
  // tokens.
  if (run.args.field("tokenizer_type") != megatron::FieldValue(std::string("NullTokenizer"))) {
    args.set("vocab_size", {vocabulary.vocab_size});
  }
  args.set("padded_vocab_size", {vocabulary.padded_vocab_size});
  args.set("global_batch_size", {data.batches.global_batch_size()});
  args.set("train_iters", {data.train_iters});
  args.set("iteration", {int64_t{0}});
  return args;
}

}  // namespace meg::tools
