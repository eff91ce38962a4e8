#include "tools/common/flag_groups/checkpoint_flags.h"

#include <algorithm>

#include "libmeg/io/mapped_file.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/gpt_config.h"

namespace meg::tools {

void CheckpointFlags::declare(Flags& flags) {
  flags.group("Reading checkpoints");
  flags.value("--param-rules", &param_rules_, "FILE",
              "rules for custom parameters: lines of PATTERN PARTITION [PLACEMENT]");
  ArgumentScope scope;
  scope.reads = megatron::fields_read_by(
      [](const megatron::FieldLookup& fields) { (void)model::GptConfig::from_fields(fields); });
  for (const megatron::ArgumentRow& row :
       megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    // The flags of the shape are those that GptConfig reads; nothing else is offered.
    const bool is_read =
        std::find(scope.reads.begin(), scope.reads.end(), row.dest) != scope.reads.end();
    if (is_read && !row.help.empty()) shape_rows_.push_back(row);
  }
  flags.arguments(shape_rows_, scope, &shape_);
}

Result<checkpoint::OpenCheckpointOptions> CheckpointFlags::options() const {
  checkpoint::OpenCheckpointOptions options;
  if (param_rules_.has_value()) {
    MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(*param_rules_));
    options.param_rules = file.text();
    options.param_rules_name = *param_rules_;
  }
  // Given flags alone: a default would pass for what a checkpoint without args has.
  options.fallback = shape_.given_lookup();
  return options;
}

Status CheckpointFlags::check_against(const checkpoint::MegatronCheckpoint& checkpoint) const {
  for (const megatron::ArgumentRow& row : shape_rows_) {
    const std::optional<megatron::FieldValue> found = checkpoint.arg(row.dest);
    if (!shape_.given(row.dest) || !found.has_value()) continue;
    const megatron::FieldValue given = *shape_.field(row.dest);
    if (std::holds_alternative<std::monostate>(*found) || megatron::same_field(given, *found)) {
      continue;
    }
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected {}, as in the checkpoint's args, found {}; such flags are only "
                      "for checkpoints without args",
                      row.flag, megatron::field_text(*found), megatron::field_text(given));
  }
  return Status();
}

}  // namespace meg::tools
