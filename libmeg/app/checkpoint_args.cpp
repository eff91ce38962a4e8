#include "libmeg/app/checkpoint_args.h"

#include <optional>
#include <string>
#include <variant>

#include "libmeg/checkpoint/dialects/mp_rank/model_arguments.h"
#include "libmeg/checkpoint/dialects/mp_rank/open_weights.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/gpt_extensions.h"

namespace meg::app {
namespace {

/// What a trained model is, and what Megatron takes over beside it.
bool is_taken(const megatron::ArgumentRow& row) {
  return row.effect == megatron::Effect::kModel || row.dest == "hidden_dropout" ||
         row.dest == "attention_dropout" || row.dest == "apply_query_key_layer_scaling" ||
         row.dest == "seq_length";
}

}  // namespace

Result<checkpoint::MegatronCheckpoint> take_checkpoint_args(megatron::ArgumentValues& args) {
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  std::optional<std::string> folder;
  std::optional<int64_t> ckpt_step;
  reader.take("load", folder);
  reader.take("ckpt_step", ckpt_step);
  if (!folder.has_value()) {
    return Status(StatusCode::kInvalidArgument, "`use_checkpoint_args` needs `load`");
  }
  MEG_ASSIGN_OR_RETURN(checkpoint::MegatronCheckpoint checkpoint,
                       checkpoint::open_weights(*folder, {}, ckpt_step));
  for (const megatron::ArgumentRow& row :
       megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    if (!is_taken(row) || args.given(row.dest)) continue;
    const std::optional<megatron::FieldValue> found = checkpoint::argument_of(checkpoint, row);
    if (!found.has_value() || std::holds_alternative<std::monostate>(*found)) continue;
    args.set(row.dest, *found);
  }
  for (const model::ExtensionField& field : model::extension_fields()) {
    if (const auto found = checkpoint.arg(field.name)) args.set(field.name, *found);
  }
  return checkpoint;
}

}  // namespace meg::app
