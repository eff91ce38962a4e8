#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_reader.h"

namespace meg::checkpoint {

std::string_view optimizer_form_text(OptimizerForm form) {
  switch (form) {
    case OptimizerForm::kNone:
      return "none";
    case OptimizerForm::kFp32:
      return "fp32";
    case OptimizerForm::kMixedPrecision:
      return "mixed precision";
    case OptimizerForm::kDistributed:
      return "distributed";
  }
  return "";
}

const ParamGroup* OptimizerLayout::group(ParamGroupKind kind, bool is_empty) const {
  const ParamGroup* found = nullptr;
  for (const ParamGroup& candidate : groups) {
    if (candidate.kind != kind) continue;
    if ((candidate.parameters == 0) == is_empty) return &candidate;
    if (found == nullptr) found = &candidate;
  }
  return found;
}

Result<MegatronCheckpoint> MegatronCheckpoint::open(const CheckpointFolder& folder,
                                                    const OpenCheckpointOptions& options) {
  MEG_ASSIGN_OR_RETURN(model::ParameterTable table, model::ParameterTable::gpt());
  if (!options.param_rules.empty()) {
    MEG_RETURN_IF_ERROR(table.add_rules(options.param_rules, options.param_rules_name));
  }
  return CheckpointReader(folder, options, std::move(table)).read();
}

Result<MegatronCheckpoint> MegatronCheckpoint::of_file(TorchFile file, int64_t tensor_rank,
                                                       int64_t pipeline_rank) {
  MEG_ASSIGN_OR_RETURN(model::ParameterTable table, model::ParameterTable::gpt());
  const OpenCheckpointOptions options;
  return CheckpointReader({}, options, std::move(table))
      .read(rank_files_of(std::move(file), tensor_rank, pipeline_rank));
}

MegatronCheckpoint::MegatronCheckpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}

MegatronCheckpoint::MegatronCheckpoint(MegatronCheckpoint&&) noexcept = default;
MegatronCheckpoint& MegatronCheckpoint::operator=(MegatronCheckpoint&&) noexcept = default;
MegatronCheckpoint::~MegatronCheckpoint() = default;

const CheckpointFolder& MegatronCheckpoint::folder() const { return state_->folder; }

const model::GptConfig& MegatronCheckpoint::config() const { return state_->config; }

const model::ParameterTable& MegatronCheckpoint::table() const { return state_->table; }

int64_t MegatronCheckpoint::tensor_model_parallel_size() const { return state_->tensor_size; }

int64_t MegatronCheckpoint::pipeline_model_parallel_size() const { return state_->pipeline_size; }

int64_t MegatronCheckpoint::virtual_pipeline_model_parallel_size() const {
  return state_->virtual_size;
}

int64_t MegatronCheckpoint::expert_model_parallel_size() const { return state_->expert_size; }

model::NameFamily MegatronCheckpoint::family() const { return state_->family; }

bool MegatronCheckpoint::norm_spelling_is_short() const { return state_->norm_spelling_is_short; }

double MegatronCheckpoint::checkpoint_version() const { return state_->version; }

std::optional<int64_t> MegatronCheckpoint::iteration() const { return state_->iteration; }

std::span<const RankFile> MegatronCheckpoint::files() const { return state_->files; }

int MegatronCheckpoint::file_index(int64_t tensor_rank, int64_t pipeline_rank) const {
  return static_cast<int>(pipeline_rank * state_->tensor_size + tensor_rank);
}

std::optional<PickleId> MegatronCheckpoint::args(int file) const {
  const TorchFile& rank = *state_->files[static_cast<size_t>(file)].file;
  return rank.graph().find(rank.root(), "args");
}

std::optional<PickleId> MegatronCheckpoint::State::find_arg(std::string_view name) const {
  const TorchFile& first = *files[0].file;
  const std::optional<PickleId> fields = first.graph().find(first.root(), "args");
  return fields.has_value() ? checkpoint::find_arg(first.graph(), *fields, name) : std::nullopt;
}

std::optional<megatron::FieldValue> MegatronCheckpoint::arg(std::string_view name) const {
  if (state_->hybrid.has_value()) {
    if (auto field = gpt_field(*state_->hybrid, name)) return field;
  }
  const std::optional<PickleId> value = state_->find_arg(name);
  return value.has_value() ? field_value(state_->files[0].file->graph(), *value) : std::nullopt;
}

std::optional<megatron::FieldValue> MegatronCheckpoint::described_arg(std::string_view name) const {
  if (std::optional<megatron::FieldValue> plain = arg(name)) return plain;
  const std::optional<PickleId> value = state_->find_arg(name);
  if (!value.has_value()) return std::nullopt;
  return arg_field(state_->files[0].file->graph(), *value);
}

std::span<const LogicalParameter> MegatronCheckpoint::parameters() const {
  return state_->parameters;
}

const LogicalParameter* MegatronCheckpoint::tied_copy() const {
  return state_->tied_copy.has_value() ? &*state_->tied_copy : nullptr;
}

std::span<const ExtraState> MegatronCheckpoint::extra_states() const {
  return state_->extra_states;
}

std::span<const std::string> MegatronCheckpoint::notes() const { return state_->notes; }

const OptimizerLayout& MegatronCheckpoint::optimizer() const { return state_->optimizer; }

}  // namespace meg::checkpoint
