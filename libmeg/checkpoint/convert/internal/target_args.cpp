#include "libmeg/checkpoint/convert/internal/target_args.h"

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/convert/internal/args_editor.h"
#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"
#include "libmeg/model/hybrid_pattern.h"

namespace meg::checkpoint {
namespace {

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
    const bool is_fused = model::has_fused_norms(layout.family);
    args->set_text("transformer_impl", is_fused ? "transformer_engine" : "local");
  }
}

/// The layers of each chunk, in the order of the model: stage by stage, then the next chunk of all.
std::vector<int64_t> segments_of(const TargetLayout& layout) {
  std::vector<int64_t> segments;
  for (int64_t c = 0; c < layout.virtual_pipeline_model_parallel_size; ++c) {
    for (const TargetStage& stage : layout.stages) {
      std::set<int64_t> layers;
      for (const TargetEntry& entry : stage.chunks[static_cast<size_t>(c)]) {
        const bool has_layer = entry.parameter != nullptr && entry.parameter->layer.has_value();
        if (has_layer) layers.insert(*entry.parameter->layer);
      }
      segments.push_back(static_cast<int64_t>(layers.size()));
    }
  }
  return segments;
}

void set_dtype(DType dtype, TargetFile* target, ArgsEditor* args) {
  args->set_bool("fp16", dtype == DType::kFloat16);
  args->set_bool("bf16", dtype == DType::kBFloat16);
  args->set("params_dtype", target->content().global("torch", std::string(dtype_name(dtype))));
}

}  // namespace

void set_hybrid_layers(const MegatronCheckpoint& checkpoint, model::NameFamily family,
                       std::vector<int64_t> segments, ArgsEditor* args) {
  const bool is_hybrid = family == model::NameFamily::kHybrid;
  if (!is_hybrid && checkpoint.family() != model::NameFamily::kHybrid) return;
  const int64_t layers = checkpoint.config().num_layers * (is_hybrid ? 2 : 1);
  args->set_int("num_layers", layers);
  args->set_int("encoder_num_layers", layers);
  args->set_none("hybrid_override_pattern");
  if (!is_hybrid) {
    args->set_none("hybrid_layer_pattern");
    args->set_none("spec");
    if (!checkpoint.config().moe_layers.empty()) {
      args->add_list("moe_layer_freq", checkpoint.config().moe_layers);
    }
    return;
  }
  const model::HybridPattern pattern = {.segments = std::move(segments),
                                        .moe_layers = checkpoint.config().layers_with_experts()};
  args->set_int("moe_layer_freq", 1);
  args->add_text("hybrid_layer_pattern", model::hybrid_pattern_text(pattern));
  // Segments say it.
  args->set_none("num_layers_per_virtual_pipeline_stage");
  args->set_none("num_virtual_stages_per_pipeline_rank");
}

Result<PickleId> carry_args(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                            int source_file, PickleId args, std::optional<DType> dtype,
                            TargetFile* target) {
  MEG_ASSIGN_OR_RETURN(const PickleId copy, target->carry(source_file, args));
  const std::optional<PickleId> dict = args_dict(target->graph(), copy);
  if (!dict.has_value()) return copy;

  ArgsEditor editor(*dict, &target->graph());
  const int64_t tensor_size = layout.ranks.tensor_size();
  const int64_t pipeline_size = layout.pipeline_model_parallel_size;
  const int64_t data_size = layout.data_parallel_size;
  const int64_t context_size = editor.as_int("context_parallel_size").value_or(1);
  editor.set_int("tensor_model_parallel_size", tensor_size);
  // Only fields that are there change: args of old revisions have the older names.
  editor.set_int("model_parallel_size", tensor_size);
  editor.set_int("pipeline_model_parallel_size", pipeline_size);
  editor.set_int("transformer_pipeline_model_parallel_size", pipeline_size);
  if (layout.experts_per_rank > 0) {
    editor.set_int("expert_model_parallel_size", layout.ranks.expert_size());
    // None stands for the tensor-parallel size.
    if (layout.ranks.divides_experts_apart() || !editor.is_none("expert_tensor_parallel_size")) {
      editor.add_int("expert_tensor_parallel_size", layout.ranks.expert_tensor_size());
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
  if (layout.true_vocab_size.has_value()) {
    editor.set_int(kTrueVocabSizeArg, *layout.true_vocab_size);
  }
  set_virtual_stages(checkpoint, layout, &editor);
  forget_uneven_split(layout, &editor);
  set_names(layout, &editor);
  if (!layout.names_kept || !layout.pipeline_kept) {
    set_hybrid_layers(checkpoint, layout.family, segments_of(layout), &editor);
  }
  if (dtype.has_value()) set_dtype(*dtype, target, &editor);
  return copy;
}

}  // namespace meg::checkpoint
