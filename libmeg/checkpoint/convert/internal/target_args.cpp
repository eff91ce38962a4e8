#include "libmeg/checkpoint/convert/internal/target_args.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace meg::checkpoint {
namespace {

/// Fields of an args dict in a target's graph.
class ArgsEditor {
 public:
  ArgsEditor(PickleId dict, TargetFile* target) : dict_(dict), target_(target) {}

  /// The place of a field's value among the dict's children; 0 where there is no such field.
  size_t find(std::string_view name) const {
    const std::vector<PickleId>& children = graph().node(dict_).children;
    for (size_t i = 0; i + 1 < children.size(); i += 2) {
      if (graph().as_string(children[i]) == name) return i + 1;
    }
    return 0;
  }

  bool is_none(std::string_view name) const {
    const size_t place = find(name);
    return place == 0 || graph().node(value(place)).kind == PickleKind::kNone;
  }

  std::optional<int64_t> as_int(std::string_view name) const {
    const size_t place = find(name);
    return place == 0 ? std::nullopt : graph().as_int(value(place));
  }

  std::optional<bool> as_bool(std::string_view name) const {
    const size_t place = find(name);
    return place == 0 ? std::nullopt : graph().as_bool(value(place));
  }

  void set(std::string_view name, PickleId node) {
    const size_t place = find(name);
    if (place != 0) target_->graph().mutable_node(dict_).children[place] = node;
  }

  // Fields are changed, not added: a field that the source's revision lacks would make its readers
  // guess another revision.
  void set_int(std::string_view name, int64_t number) {
    if (find(name) != 0 && as_int(name) != number) set(name, target_->graph().add_int(number));
  }

  void set_bool(std::string_view name, bool yes) {
    if (find(name) != 0 && as_bool(name) != yes) set(name, target_->graph().add_bool(yes));
  }

  void set_text(std::string_view name, std::string_view text) {
    const size_t place = find(name);
    if (place != 0 && graph().as_string(value(place)) != text) set(name, target_->text(text));
  }

  void set_none(std::string_view name) {
    if (!is_none(name)) set(name, target_->none());
  }

  void add_int(std::string_view name, int64_t number) {
    const PickleId key = target_->text(name);
    const PickleId node = target_->graph().add_int(number);
    std::vector<PickleId>& children = target_->graph().mutable_node(dict_).children;
    children.push_back(key);
    children.push_back(node);
  }

 private:
  const PickleGraph& graph() const { return target_->graph(); }

  PickleId value(size_t place) const { return graph().node(dict_).children[place]; }

  PickleId dict_;
  TargetFile* target_;
};

void set_virtual_stages(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                        ArgsEditor* args) {
  if (layout.pipeline_kept) return;
  const int64_t chunks = layout.virtual_pipeline_model_parallel_size;
  if (chunks == 1) {
    for (const char* name :
         {"virtual_pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage",
          "num_virtual_stages_per_pipeline_rank"}) {
      args->set_none(name);
    }
    return;
  }
  args->set_int("virtual_pipeline_model_parallel_size", chunks);
  // Megatron takes one of the two; the source's choice stays.
  if (!args->is_none("num_virtual_stages_per_pipeline_rank")) {
    args->set_int("num_virtual_stages_per_pipeline_rank", chunks);
    args->set_none("num_layers_per_virtual_pipeline_stage");
  } else {
    args->set_int("num_layers_per_virtual_pipeline_stage",
                  checkpoint.config().num_layers / (layout.pipeline_model_parallel_size * chunks));
  }
}

/// New stages are even; what asked for others does not hold any more.
void forget_uneven_split(const TargetLayout& layout, ArgsEditor* args) {
  if (layout.pipeline_kept) return;
  for (const char* name : {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
                           "pipeline_model_parallel_layout"}) {
    args->set_none(name);
  }
  for (const char* name :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    args->set_bool(name, false);
  }
}

void set_names(const TargetLayout& layout, ArgsEditor* args) {
  if (layout.names_kept) return;
  args->set_bool("use_legacy_models", !model::is_mcore(layout.family));
  args->set_bool("use_mcore_models", model::is_mcore(layout.family));
  if (model::is_mcore(layout.family)) {
    const bool is_fused = layout.family == model::NameFamily::kMcoreTransformerEngine;
    args->set_text("transformer_impl", is_fused ? "transformer_engine" : "local");
  }
}

void set_dtype(DType dtype, TargetFile* target, ArgsEditor* args) {
  args->set_bool("fp16", dtype == DType::kFloat16);
  args->set_bool("bf16", dtype == DType::kBFloat16);
  args->set("params_dtype", target->content().global("torch", std::string(dtype_name(dtype))));
}

}  // namespace

Result<PickleId> carry_args(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                            int source_file, PickleId args, std::optional<DType> dtype,
                            TargetFile* target) {
  MEG_ASSIGN_OR_RETURN(const PickleId copy, target->carry(source_file, args));
  PickleId dict = copy;
  if (target->graph().node(copy).kind != PickleKind::kDict) {
    const std::optional<PickleId> attributes = target->graph().attributes(copy);
    if (!attributes.has_value()) return copy;
    dict = *attributes;
  }
  if (target->graph().node(dict).kind != PickleKind::kDict) return copy;

  ArgsEditor editor(dict, target);
  const int64_t tensor_size = layout.tensor_model_parallel_size;
  const int64_t pipeline_size = layout.pipeline_model_parallel_size;
  int64_t data_size = layout.data_parallel_size;
  const int64_t context_size = editor.as_int("context_parallel_size").value_or(1);
  editor.set_int("tensor_model_parallel_size", tensor_size);
  editor.set_int("model_parallel_size", tensor_size);
  editor.set_int("pipeline_model_parallel_size", pipeline_size);
  editor.set_int("transformer_pipeline_model_parallel_size", pipeline_size);
  const int64_t expert_size = layout.expert_model_parallel_size;
  // Expert-parallel ranks are data-parallel ones.
  if (layout.experts_per_rank > 0 && data_size % expert_size != 0) data_size = expert_size;
  if (layout.experts_per_rank > 0) {
    editor.set_int("expert_model_parallel_size", expert_size);
    if (!editor.is_none("expert_tensor_parallel_size")) {
      editor.set_int("expert_tensor_parallel_size", tensor_size);
    }
  }
  editor.set_int("world_size", tensor_size * pipeline_size * data_size * context_size);
  if (editor.as_int("data_parallel_size").has_value()) {
    editor.set_int("data_parallel_size", data_size);
  }
  if (checkpoint.optimizer().is_distributed != layout.has_distributed_optimizer) {
    editor.set_bool("use_distributed_optimizer", layout.has_distributed_optimizer);
  }
  // Megatron itself switches it off there.
  if (tensor_size == 1) editor.set_bool("sequence_parallel", false);
  // The one field that is added: what a reader would compute from other args may be another size.
  if (editor.find("padded_vocab_size") == 0) {
    editor.add_int("padded_vocab_size", layout.target_vocab_rows);
  }
  editor.set_int("padded_vocab_size", layout.target_vocab_rows);
  set_virtual_stages(checkpoint, layout, &editor);
  forget_uneven_split(layout, &editor);
  set_names(layout, &editor);
  if (dtype.has_value()) set_dtype(*dtype, target, &editor);
  return copy;
}

}  // namespace meg::checkpoint
