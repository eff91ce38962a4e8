#include "libmeg/checkpoint/training/read_training_state.h"

#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"
#include "libmeg/checkpoint/training/internal/rng_tree.h"
#include "libmeg/checkpoint/training/internal/value_reader.h"

// Reads the state of a run except its tensors from parsed rank files. Progress, groups, scheduler
// and loss scaler are the same in all files and are taken from the first; the generators are read
// from the file of the rank that asks.
//
// Revisions differ in which keys they write. Keys that some revisions lack have defaults here;
// errors about keys that a run needs name the flag that skips them.

namespace meg::checkpoint {
namespace {

Status read_group(const TorchFile& file, PickleId dict, ParamGroupState* group) {
  ValueReader values(file, dict, "optimizer: param_groups");
  group->weight_decay = values.real("weight_decay");
  // Where a group has no wd_mult, its weight_decay tells which of the two it is.
  group->wd_mult = values.real_or("wd_mult", group->weight_decay == 0.0 ? 0.0 : 1.0);
  group->lr_mult = values.real_or("lr_mult", 1.0);
  group->lr = values.real("lr");
  group->bias_correction = values.flag_or("bias_correction", true);
  group->betas = values.pair("betas");
  group->eps = values.real("eps");
  group->max_lr = values.real_or("max_lr", 0.0);
  group->min_lr = values.real_or("min_lr", 0.0);
  // apex's FusedAdam keeps the step here, torch's Adam with each parameter: see
  // read_step_of_parameters().
  if (values.has("step")) group->step = values.integer("step");
  return values.status();
}

Result<GradScalerState> read_scaler(const TorchFile& file, PickleId dict) {
  GradScalerState state;
  // A ConstantGradScaler's state is an empty dict.
  if (file.graph().pairs(dict).empty()) return state;
  ValueReader values(file, dict, "optimizer: grad_scaler");
  GradScalerState::Dynamic dynamic;
  dynamic.scale = values.scale("scale");
  dynamic.growth_tracker = values.integer("growth_tracker");
  dynamic.hysteresis_tracker = values.integer("hysteresis_tracker");
  if (!values.status().ok()) return values.status();
  state.dynamic = dynamic;
  return state;
}

class StateReader {
 public:
  StateReader(const MegatronCheckpoint& checkpoint, const TrainingReadOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        file_(*checkpoint.files()[0].file),
        graph_(file_.graph()) {}

  Result<TrainingState> read() {
    state_.tensor_rank = options_.tensor_rank;
    state_.pipeline_rank = options_.pipeline_rank;
    MEG_RETURN_IF_ERROR(read_progress());
    if (options_.loads_optimizer(checkpoint_)) {
      MEG_RETURN_IF_ERROR(read_optimizer());
      MEG_RETURN_IF_ERROR(read_scheduler_state());
    }
    if (options_.loads_rng(checkpoint_)) MEG_RETURN_IF_ERROR(read_rng());
    return std::move(state_);
  }

 private:
  Status absent(std::string_view what, std::string_view key, std::string_view flag) const {
    return make_error(
        StatusCode::kNotFound,
        "{}: cannot load the {}: expected the key {}, found none; use {} or `finetune` to skip it",
        file_.path(), what, key, flag);
  }

  Status read_progress() {
    if (const std::optional<PickleId> args = checkpoint_.args(0)) {
      MEG_ASSIGN_OR_RETURN(state_.args, read_training_args(file_, *args));
    }
    constexpr std::string_view kOperations = "num_floating_point_operations_so_far";
    if (const std::optional<PickleId> operations = graph_.find(file_.root(), kOperations)) {
      // A value that is not a number does not end the load: the counter only makes log lines.
      state_.num_floating_point_operations_so_far =
          field_value(graph_, *operations).value_or(int64_t{0});
    }
    if (!options_.finetune) {
      state_.consumed_train_samples = consumed("consumed_train_samples");
      state_.consumed_valid_samples = consumed("consumed_valid_samples");
      // release/ holds weights to start from, which Megatron loads as iteration 0.
      if (!checkpoint_.folder().is_release) state_.iteration = checkpoint_.iteration().value_or(0);
    }
    return Status();
  }

  int64_t consumed(const char* name) const {
    const std::optional<megatron::FieldValue> value = state_.args.field(name);
    const int64_t* samples = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
    return samples == nullptr ? 0 : *samples;
  }

  Status read_optimizer() {
    const OptimizerLayout& layout = checkpoint_.optimizer();
    if (layout.form == OptimizerForm::kNone) {
      return absent("optimizer", "optimizer", "`no_load_optim`");
    }
    // The moments are in another file then, without which there is only half an optimizer.
    if (layout.form == OptimizerForm::kDistributed) {
      return make_error(StatusCode::kNotFound,
                        "{}: cannot load the optimizer: expected distrib_optim.pt beside it, found "
                        "no such file; use `no_load_optim` or `finetune` to skip it",
                        file_.path());
    }
    MEG_RETURN_IF_ERROR(check_groups());
    OptimizerState optimizer;
    optimizer.mixed_precision = layout.form == OptimizerForm::kMixedPrecision;
    if (layout.group(ParamGroupKind::kDecoupled) != nullptr) optimizer.decoupled.emplace();
    for (const ParamGroupKind kind :
         {ParamGroupKind::kDecay, ParamGroupKind::kDecoupled, ParamGroupKind::kNoDecay}) {
      const ParamGroup* found = layout.group(kind);
      if (found == nullptr) continue;
      MEG_RETURN_IF_ERROR(read_group(*checkpoint_.files()[static_cast<size_t>(found->file)].file,
                                     found->node, &settings_of(optimizer, kind)));
    }
    MEG_RETURN_IF_ERROR(read_step_of_parameters(&optimizer));
    const PickleId outer = graph_.find(file_.root(), "optimizer").value_or(file_.root());
    if (const std::optional<PickleId> scaler = graph_.find(outer, "grad_scaler")) {
      MEG_ASSIGN_OR_RETURN(optimizer.grad_scaler, read_scaler(file_, *scaler));
    }
    state_.optimizer = std::move(optimizer);
    return Status();
  }

  // The trainer decides by has_weight_decay() which parameters decay. Were a checkpoint's groups
  // cut otherwise (an own no_weight_decay_cond), the run would continue with other decays without a
  // word; hence it is refused.
  Status check_groups() const {
    for (const LogicalParameter& parameter : checkpoint_.parameters()) {
      if (parameter.is_buffer) continue;
      const bool decays = model::has_weight_decay(parameter.spelling, parameter.shape.size());
      const ParamGroupKind expected = decays ? ParamGroupKind::kDecay : ParamGroupKind::kNoDecay;
      if (parameter.group == expected || parameter.group == ParamGroupKind::kDecoupled) continue;
      return make_error(StatusCode::kUnsupported,
                        "{}: cannot load the optimizer: param_groups: expected {} {}, found it {}: "
                        "not supported yet; use `no_load_optim` or `finetune` to skip it",
                        file_.path(), parameter.name, param_group_text(expected),
                        param_group_text(parameter.group));
    }
    return Status();
  }

  static ParamGroupState& settings_of(OptimizerState& optimizer, ParamGroupKind kind) {
    if (kind == ParamGroupKind::kDecoupled) return *optimizer.decoupled;
    return kind == ParamGroupKind::kDecay ? optimizer.decay : optimizer.no_decay;
  }

  /// torch's own Adam keeps the step with each parameter.
  Status read_step_of_parameters(OptimizerState* optimizer) const {
    for (const LogicalParameter& parameter : checkpoint_.parameters()) {
      if (parameter.is_buffer) continue;
      std::optional<int64_t>& step = settings_of(*optimizer, parameter.group).step;
      // The first one found is that of the group: Adam steps all parameters of a group together.
      if (step.has_value()) continue;
      for (const auto& [key, value] : parameter.other_state) {
        if (key != "step") continue;
        MEG_ASSIGN_OR_RETURN(step, parameter_step(*value));
      }
    }
    return Status();
  }

  Status read_scheduler_state() {
    std::optional<PickleId> dict = graph_.find(file_.root(), "opt_param_scheduler");
    // The key of older revisions; Megatron's load_checkpoint looks for both as well.
    if (!dict.has_value()) dict = graph_.find(file_.root(), "lr_scheduler");
    if (!dict.has_value()) return absent("scheduler", "opt_param_scheduler", "`no_load_optim`");
    StateFields fields;
    const std::span<const PickleId> pairs = graph_.pairs(*dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> name = graph_.as_string(pairs[i]);
      std::optional<megatron::FieldValue> value = field_value(graph_, pairs[i + 1]);
      // Plain values are all that state_dict() of a scheduler has. The names of older revisions are
      // mapped by OptimizerParamScheduler::load_state_dict, not here.
      if (!name.has_value() || !value.has_value()) {
        return make_error(
            StatusCode::kCorruption, "{}: opt_param_scheduler: expected plain values, found {}: {}",
            file_.path(), graph_.describe(pairs[i], 40), graph_.describe(pairs[i + 1], 40));
      }
      fields.emplace_back(*name, *std::move(value));
    }
    state_.opt_param_scheduler = std::move(fields);
    return Status();
  }

  Status read_rng() {
    // The rank does not exist in the checkpoint's layout, so no generator continues it. The caller
    // decides what to do then.
    if (options_.tensor_rank >= checkpoint_.tensor_model_parallel_size() ||
        options_.pipeline_rank >= checkpoint_.pipeline_model_parallel_size()) {
      return Status();
    }
    const int index = checkpoint_.file_index(options_.tensor_rank, options_.pipeline_rank);
    const TorchFile& file = *checkpoint_.files()[static_cast<size_t>(index)].file;
    Result<RngState> rng = read_rng_state(file, options_.data_rank);
    if (!rng.has_value() && rng.error().code() == StatusCode::kNotFound) {
      return absent("generators", "rng_state", "`no_load_rng`");
    }
    MEG_ASSIGN_OR_RETURN(state_.rng, std::move(rng));
    return Status();
  }

  const MegatronCheckpoint& checkpoint_;
  const TrainingReadOptions& options_;
  const TorchFile& file_;
  const PickleGraph& graph_;
  TrainingState state_;
};

}  // namespace

Result<TrainingState> read_training_state(const MegatronCheckpoint& checkpoint,
                                          const TrainingReadOptions& options) {
  return StateReader(checkpoint, options).read();
}

}  // namespace meg::checkpoint
