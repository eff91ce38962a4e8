#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "libmeg/checkpoint/dialects/mp_rank/check_architecture.h"
#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"
#include "libmeg/checkpoint/training/read_training_state.h"
#include "libmeg/checkpoint/training/read_training_tensors.h"
#include "libmeg/libtorch/tensor_bytes.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/train/checkpointing.h"
#include "libmeg/train/internal/checkpoint_lines.h"
#include "libmeg/train/internal/generator_states.h"

// Opens a checkpoint and puts it into a run: weights, masters and moments straight into the tensors
// of this rank, then the scalars (scheduler, loss scaler, progress), then the generators. The
// layout of the checkpoint need not be the run's: read_training_tensors cuts each rank's shard out
// of whatever files hold it.

namespace meg::train {
namespace {

using libtorch::torch_guard;

/// What is read of one parameter, and where it goes.
struct Reading {
  at::Tensor into;  ///< On the model's device.
  at::Tensor host;  ///< The same memory, or a copy on the CPU.
};

// CPU memory for tensors that are on their way to a GPU, at most one tensor more than this. It
// bounds what a load needs on the host however large the model is, and still lets many tensors
// share one pass over the files.
constexpr size_t kBytesAtOnce = size_t{256} << 20;

/// Reads tensors in place, those of a GPU by way of the CPU, some at a time.
class Readings {
 public:
  Readings(const checkpoint::MegatronCheckpoint& checkpoint,
           const checkpoint::TrainingTensorOptions& options)
      : checkpoint_(checkpoint), options_(options) {}

  Status add(const std::string& name, const std::string& kind, const at::Tensor& into) {
    const at::Tensor detached = into.detach();
    const at::Tensor host = detached.is_cpu() ? detached : at::empty_like(detached, at::kCPU);
    targets_.push_back({.name = name,
                        .kind = kind,
                        .dtype = libtorch::dtype_of_tensor(host),
                        .shape = libtorch::tensor_shape(host),
                        .bytes = libtorch::tensor_bytes(host)});
    readings_.push_back({.into = detached, .host = host});
    if (!detached.is_cpu()) bytes_ += host.nbytes();
    return bytes_ < kBytesAtOnce ? Status() : read();
  }

  /// What is not read yet.
  Status read() {
    MEG_RETURN_IF_ERROR(checkpoint::read_training_tensors(checkpoint_, targets_, options_));
    for (const Reading& reading : readings_) {
      if (!reading.into.is_cpu()) reading.into.copy_(reading.host);
    }
    targets_.clear();
    readings_.clear();
    bytes_ = 0;
    return {};
  }

 private:
  const checkpoint::MegatronCheckpoint& checkpoint_;
  checkpoint::TrainingTensorOptions options_;
  std::vector<checkpoint::TrainingTensorTarget> targets_;
  std::vector<Reading> readings_;
  size_t bytes_ = 0;  ///< On the CPU only for the way.
};

Status read_tensors(const checkpoint::MegatronCheckpoint& checkpoint, bool with_optimizer,
                    RunParts parts) {
  const nn::ModelPart& part = parts.model.part();
  Readings readings(
      checkpoint,
      {.tensor_model_parallel_size = part.sizes.tensor_model_parallel_size,
       .tensor_rank = part.tensor_rank,
       .of_experts = checkpoint::TensorParallelPlace{.rank = part.tensor_rank_of(true),
                                                     .size = part.sizes.expert_tensor_size()},
       .use_masters = with_optimizer});
  const auto parameters = parts.model.parameters();
  MEG_ASSIGN_OR_RETURN(const std::vector<Optimizer::ParameterState> states,
                       parts.optimizer.states());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    // Where there is a master, the weight is read into that, in fp32 where the checkpoint has it
    // so; the 16-bit weight is rounded from it below.
    const bool has_master = with_optimizer && states[i].master.defined();
    MEG_RETURN_IF_ERROR(
        readings.add(name, "weight", has_master ? states[i].master : parameters[i].tensor));
    if (!with_optimizer) continue;
    MEG_RETURN_IF_ERROR(readings.add(name, "exp_avg", states[i].exp_avg));
    MEG_RETURN_IF_ERROR(readings.add(name, "exp_avg_sq", states[i].exp_avg_sq));
  }
  for (const nn::ExpertBias& bias : parts.model.expert_biases()) {
    MEG_RETURN_IF_ERROR(readings.add(bias.name, "weight", bias.tensor));
  }
  MEG_RETURN_IF_ERROR(readings.read());
  // With a distributed optimizer `states` are copies of whole parameters: it takes its share of
  // them now.
  MEG_RETURN_IF_ERROR(parts.optimizer.take_states(states));
  // Without the optimizer it is the other way round, as in Megatron (reload_model_params): masters
  // begin at the 16-bit weights.
  return with_optimizer ? parts.optimizer.copy_masters_to_model()
                        : parts.optimizer.copy_model_to_masters();
}

/// The scheduler's fields by the names that checkpoints give them.
megatron::FieldLookup scheduler_fields(const auto& fields) {
  return [&fields](std::string_view name) -> std::optional<megatron::FieldValue> {
    for (const auto& [key, value] : fields) {
      if (key == name) return value;
    }
    return std::nullopt;
  };
}

// An int or a float: Megatron's counter of operations begins as the int 0 and has floats added to
// it.
double number_of(const megatron::FieldValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  return real != nullptr ? *real : 0;
}

/// 0 for what is no integer.
int64_t integer_of(const std::optional<megatron::FieldValue>& value) {
  const int64_t* integer = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
  return integer == nullptr ? 0 : *integer;
}

int64_t skipped_samples(const checkpoint::TrainingArgs& args) {
  return integer_of(args.field("skipped_train_samples"));
}

// Megatron loads an optimizer only into one with the same parameter groups: torch's load_state_dict
// refuses another number of them, and --decoupled-lr adds one.
Status check_groups(const checkpoint::OptimizerState& saved,
                    const schedule::OptimizerParamScheduler::Options& run) {
  if (saved.decoupled.has_value() == run.decoupled_lr.has_value()) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "cannot load the optimizer: decoupled_lr: expected a run {} it, as in the "
                    "checkpoint, found one {}; use `no_load_optim` or `finetune` to skip it",
                    saved.decoupled.has_value() ? "with" : "without",
                    saved.decoupled.has_value() ? "without" : "with");
}

// Megatron's scheduler multiplies every rate of a group by its lr_mult; vision models and forks
// have some of their own.
Status check_lr_mult(const checkpoint::OptimizerState& saved) {
  for (const checkpoint::ParamGroupState& group :
       {saved.decay, saved.no_decay, saved.decoupled.value_or(saved.decay)}) {
    if (group.lr_mult == 1) continue;
    return make_error(StatusCode::kUnsupported,
                      "cannot load the optimizer: param_groups: lr_mult: expected 1, found {}: not "
                      "done yet; `no_load_optim` or `finetune` does without",
                      group.lr_mult);
  }
  return {};
}

// torch's load_state_dict takes these over, so that Megatron continues with them whatever its flags
// say, and silently. Here flags mean what they say.
void tell_other_settings(const checkpoint::OptimizerState& saved, RunParts parts,
                         const PrintLine& print) {
  const auto compare = [&](std::string_view name, double found, double given) {
    if (found == given) return;
    print(
        fmt::format("WARNING: {}: {} in the checkpoint, {} from the flags, which counts "
                    "(Megatron-LM continues with the checkpoint's)",
                    name, found, given));
  };
  const auto compare_rates = [&](const checkpoint::ParamGroupState& group, std::string_view prefix,
                                 double lr, double min_lr) {
    // Before core 0.6 groups had no rates of their own, and Megatron takes those of the flags.
    if (group.max_lr == 0) return;
    compare(fmt::format("{}lr", prefix), group.max_lr, lr);
    compare(fmt::format("{}min_lr", prefix), group.min_lr, min_lr);
  };
  const Optimizer::Options& run = parts.optimizer.options();
  compare("adam_beta1", saved.decay.betas[0], run.betas[0]);
  compare("adam_beta2", saved.decay.betas[1], run.betas[1]);
  compare("adam_eps", saved.decay.eps, run.eps);
  const schedule::OptimizerParamScheduler::Options& rates = parts.scheduler.options();
  compare_rates(saved.decay, "", rates.max_lr, rates.min_lr);
  if (!saved.decoupled.has_value() || !rates.decoupled_lr.has_value()) return;
  compare_rates(*saved.decoupled, "decoupled_", *rates.decoupled_lr,
                rates.decoupled_min_lr.value_or(rates.min_lr));
}

// Its rows are the ids of tokens, so that a table of another size is the first thing to look at
// where a model behaves otherwise than before.
void tell_other_padding(const checkpoint::MegatronCheckpoint& checkpoint,
                        const megatron::FieldLookup& run, const PrintLine& print) {
  const std::optional<megatron::FieldValue> rows = run("padded_vocab_size");
  const int64_t found = checkpoint.config().padded_vocab_size;
  const int64_t* given = rows.has_value() ? std::get_if<int64_t>(&*rows) : nullptr;
  if (given == nullptr || found == 0 || found == *given) return;
  print(fmt::format("WARNING: padded_vocab_size: {} in the checkpoint, {} in this run: {}", found,
                    *given,
                    *given < found ? "the last rows of padding are dropped"
                                   : "rows of padding are added, as copies of the last one"));
}

// The flag speaks of a schedule that is not loaded: most likely the run was meant to have it.
void tell_unread_scheduler(const CheckpointOptions& options, const RunParts& parts,
                           const PrintLine& print) {
  if (!parts.scheduler.options().use_checkpoint_opt_param_scheduler) return;
  print(
      fmt::format("WARNING: `use_checkpoint_opt_param_scheduler` has no effect {}: the schedule is "
                  "that of the flags and begins at its first step",
                  options.finetune        ? "with `finetune`"
                  : options.no_load_optim ? "with `no_load_optim`"
                                          : "where the checkpoint has no schedule"));
}

Status restore_optimizer(const checkpoint::TrainingState& state, RunParts parts,
                         const PrintLine& print) {
  if (state.optimizer.has_value()) {
    MEG_RETURN_IF_ERROR(check_groups(*state.optimizer, parts.scheduler.options()));
    MEG_RETURN_IF_ERROR(check_lr_mult(*state.optimizer));
    parts.optimizer.set_updates(state.optimizer->decay.step.value_or(0));
    schedule::GradScaler* scaler = parts.optimizer.scaler();
    // A constant scale is not part of a checkpoint, and a run that has none ignores what the
    // checkpoint has.
    const auto& saved = state.optimizer->grad_scaler;
    if (scaler != nullptr && saved.has_value() && saved->dynamic.has_value()) {
      MEG_RETURN_IF_ERROR(
          scaler->load_state_dict({.scale = saved->dynamic->scale,
                                   .growth_tracker = saved->dynamic->growth_tracker,
                                   .hysteresis_tracker = saved->dynamic->hysteresis_tracker}));
    }
  }
  if (state.opt_param_scheduler.has_value()) {
    MEG_ASSIGN_OR_RETURN(
        const std::vector<std::string> lines,
        parts.scheduler.load_state_dict(scheduler_fields(*state.opt_param_scheduler)));
    for (const std::string& line : lines) print(line);
  }
  // After the schedule, which may have taken rates from the checkpoint.
  if (state.optimizer.has_value()) tell_other_settings(*state.optimizer, parts, print);
  return {};
}

}  // namespace

// Everything else that find_checkpoint reports is an error, above all a tracker that names an
// iteration that is not there.
bool lacks_checkpoint(const std::string& load) {
  std::error_code ignored;
  const std::filesystem::path folder(load);
  if (!std::filesystem::exists(folder, ignored)) return true;
  return std::filesystem::is_directory(folder, ignored) &&
         !std::filesystem::exists(folder / std::string(checkpoint::kTrackerName), ignored);
}

Result<std::optional<checkpoint::MegatronCheckpoint>> open_checkpoint(
    const CheckpointOptions& options, const PrintLine& print) {
  if (!options.load.has_value()) return std::optional<checkpoint::MegatronCheckpoint>();
  const std::string& load = *options.load;
  const Result<checkpoint::CheckpointFolder> folder =
      checkpoint::find_checkpoint(load, options.ckpt_step);
  if (!folder.has_value()) {
    // Starting from random weights is only right where no iteration was requested: a wrong
    // --ckpt-step must not train from the start.
    const bool none = folder.error().code() == StatusCode::kNotFound &&
                      !options.ckpt_step.has_value() && lacks_checkpoint(load);
    if (!none || options.exit_on_missing_checkpoint) return folder.error();
    print(fmt::format("WARNING: could not find the metadata file {}/{} ", load,
                      checkpoint::kTrackerName));
    print("    will not load any checkpoints and will start from random");
    return std::optional<checkpoint::MegatronCheckpoint>();
  }
  checkpoint::OpenCheckpointOptions open = options.open;
  // Its files are then not opened, so that a checkpoint whose optimizer cannot be read still gives
  // its weights.
  open.ignore_optimizer = options.finetune || options.no_load_optim;
  MEG_ASSIGN_OR_RETURN(checkpoint::MegatronCheckpoint checkpoint,
                       checkpoint::MegatronCheckpoint::open(*folder, open));
  return std::optional<checkpoint::MegatronCheckpoint>(std::move(checkpoint));
}

Result<TrainingProgress> load_checkpoint(const checkpoint::MegatronCheckpoint& checkpoint,
                                         const CheckpointOptions& options,
                                         const megatron::FieldLookup& run, RunParts parts,
                                         const PrintLine& print) {
  const std::string& load = *options.load;
  const checkpoint::CheckpointFolder& folder = checkpoint.folder();
  const logging::CheckpointLog log = checkpoint_log(options.lines, folder.format);
  print(log.loading_line(checkpoint.iteration().value_or(0), load, folder.is_release,
                         checkpoint::has_dist_items(folder.format)));
  // Check before anything is read: a model of another shape would fail tensor by tensor, and one of
  // another activation or norm would load silently.
  MEG_RETURN_IF_ERROR(checkpoint::check_architecture(checkpoint, run));
  tell_other_padding(checkpoint, run, print);
  const int64_t came_with = integer_of(checkpoint.arg(checkpoint::kTrueVocabSizeArg));
  const int64_t kept = integer_of(run("padded_vocab_size"));
  if (came_with > kept && kept > 0) {
    print(
        fmt::format("warning: the model came with {} vocabulary rows, of which this run has {}; "
                    "`make_vocab_size_divisible_by` {} keeps all",
                    came_with, kept, came_with));
  }
  const checkpoint::TrainingReadOptions reading = {
      .finetune = options.finetune,
      .no_load_optim = options.no_load_optim,
      .no_load_rng = options.no_load_rng,
      .tensor_rank = parts.model.part().tensor_rank,
      .pipeline_rank = parts.model.part().pipeline_rank};
  MEG_ASSIGN_OR_RETURN(const checkpoint::TrainingState state,
                       checkpoint::read_training_state(checkpoint, reading));
  const bool with_optimizer = reading.loads_optimizer(checkpoint);
  MEG_RETURN_IF_ERROR(
      libtorch::torch_guard([&] { return read_tensors(checkpoint, with_optimizer, parts); }));
  if (with_optimizer) MEG_RETURN_IF_ERROR(restore_optimizer(state, parts, print));
  if (!state.opt_param_scheduler.has_value()) tell_unread_scheduler(options, parts, print);
  // In another layout not every rank has one: all continue as seeded then, so that those that
  // draw alike do.
  MEG_ASSIGN_OR_RETURN(const int64_t is_missing, parts.ranks.max(state.rng.has_value() ? 0 : 1));
  if (is_missing == 0) {
    MEG_RETURN_IF_ERROR(restore_generators(*state.rng, parts.model.random_states()));
  }
  print(log.loaded_line(state.iteration, load, rank_of(parts.model.part())));
  return TrainingProgress{
      .iteration = state.iteration,
      .consumed_train_samples = state.consumed_train_samples,
      .consumed_valid_samples = state.consumed_valid_samples,
      .skipped_train_samples = options.finetune ? 0 : skipped_samples(state.args),
      .floating_point_operations = number_of(state.num_floating_point_operations_so_far)};
}

}  // namespace meg::train
