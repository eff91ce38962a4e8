#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "libmeg/checkpoint/dialects/mp_rank/check_architecture.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/training/write_training_checkpoint.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/libtorch/device_figures.h"
#include "libmeg/libtorch/tensor_bytes.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/train/checkpointing.h"
#include "libmeg/train/internal/checkpoint_lines.h"
#include "libmeg/train/internal/generator_states.h"

// Saves in two halves: a snapshot on the training thread, which needs the model to stand still, and
// the writing, which does not and with --async-save runs during the next steps.
//
// Ranks agree after every stage (stage, write, complete): a rank that fails alone would leave the
// others waiting in their next collective. Files are written into a staging folder that the first
// rank made; only when every rank has written its part is it renamed into place, and only after
// that does the tracker name it.

namespace meg::train {
namespace {

/// A copy in page-locked memory, which LibTorch keeps for the next save: a GPU writes it at the
/// bus's speed. It is there when the device has been waited for.
at::Tensor copy_from_gpu(const at::Tensor& tensor) {
  at::Tensor host =
      at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(tensor.detach(), /*non_blocking=*/true);
}

/// A tensor's elements on the CPU: a copy where training may continue before they are written.
checkpoint::TrainingTensor handed_over(const at::Tensor& tensor, bool copy) {
  // A synchronous save reads the parameters themselves: nothing changes them until it returns.
  const at::Tensor host =
      tensor.is_cpu() ? tensor.detach().to(tensor.scalar_type(), /*non_blocking=*/false, copy)
                      : copy_from_gpu(tensor);
  const auto owner = std::make_shared<const at::Tensor>(host.contiguous());
  return {.dtype = libtorch::dtype_of_tensor(*owner),
          .shape = libtorch::tensor_shape(*owner),
          .bytes = libtorch::tensor_bytes(*owner),
          .owner = owner};
}

Result<std::vector<checkpoint::TrainingParameter>> snapshot_parameters(RunParts parts,
                                                                       bool with_optimizer,
                                                                       bool copy) {
  std::vector<checkpoint::TrainingParameter> saved;
  const auto parameters = parts.model.parameters();
  MEG_RETURN_IF_ERROR(parts.optimizer.finish_gathers());
  MEG_ASSIGN_OR_RETURN(const std::vector<Optimizer::ParameterState> states,
                       parts.optimizer.states());
  // torch's Adam has no state before its first step, and Megatron's checkpoint of iteration 0 has
  // no moments either: zeros would be read back as a state that was stepped.
  const bool with_moments = with_optimizer && parts.optimizer.updates() > 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    checkpoint::TrainingParameter parameter;
    parameter.name = parameters[i].name;
    parameter.weight = handed_over(parameters[i].tensor, copy);
    if (with_optimizer && states[i].master.defined()) {
      parameter.fp32_param = handed_over(states[i].master, copy);
    }
    if (with_moments) {
      parameter.exp_avg = handed_over(states[i].exp_avg, copy);
      parameter.exp_avg_sq = handed_over(states[i].exp_avg_sq, copy);
    }
    saved.push_back(std::move(parameter));
  }
  for (const nn::ExpertBias& bias : parts.model.expert_biases()) {
    checkpoint::TrainingParameter& parameter = saved.emplace_back();
    parameter.name = bias.name;
    parameter.weight = handed_over(bias.tensor, copy);
  }
  return saved;
}

checkpoint::OptimizerState optimizer_state_of(RunParts parts) {
  const Optimizer& optimizer = parts.optimizer;
  checkpoint::OptimizerState state;
  state.mixed_precision = parts.model.options().params_dtype != at::kFloat;
  // Megatron's groups differ in weight decay, and with --decoupled-lr in their rates. Everything
  // else is that of the whole run; torch's format repeats it in each group.
  checkpoint::ParamGroupState& decay = state.decay;
  decay.lr = parts.scheduler.lr();
  decay.weight_decay = parts.scheduler.weight_decay();
  decay.betas = optimizer.options().betas;
  decay.eps = optimizer.options().eps;
  decay.max_lr = parts.scheduler.options().max_lr;
  decay.min_lr = parts.scheduler.options().min_lr;
  if (optimizer.updates() > 0) decay.step = optimizer.updates();
  // Biases and norms: get_param_groups in megatron/core/optimizer gives them wd_mult 0.
  state.no_decay = decay;
  state.no_decay.wd_mult = 0;
  state.no_decay.weight_decay = 0;
  if (const auto lr = parts.scheduler.options().decoupled_lr) {
    checkpoint::ParamGroupState& decoupled = state.decoupled.emplace(decay);
    decoupled.lr = parts.scheduler.decoupled_lr().value_or(*lr);
    decoupled.max_lr = *lr;
    decoupled.min_lr = parts.scheduler.options().decoupled_min_lr.value_or(decay.min_lr);
  }
  if (schedule::GradScaler* scaler = parts.optimizer.scaler();
      scaler != nullptr && state.mixed_precision) {
    state.grad_scaler.emplace();
    if (const auto dynamic = scaler->state_dict()) {
      state.grad_scaler->dynamic = {.scale = dynamic->scale,
                                    .growth_tracker = dynamic->growth_tracker,
                                    .hysteresis_tracker = dynamic->hysteresis_tracker};
    }
  }
  return state;
}

Status create(const std::filesystem::path& path, std::optional<io::AtomicFolder>& folder) {
  MEG_ASSIGN_OR_RETURN(folder, io::AtomicFolder::create(path.string()));
  return {};
}

}  // namespace

Result<checkpoint::TrainingState> CheckpointSaver::snapshot(const TrainingProgress& progress,
                                                            RunParts parts) const {
  checkpoint::TrainingState state;
  state.iteration = progress.iteration;
  state.consumed_train_samples = progress.consumed_train_samples;
  state.consumed_valid_samples = progress.consumed_valid_samples;
  state.num_floating_point_operations_so_far = progress.floating_point_operations;
  state.args = args_;
  state.tensor_rank = parts.ranks.tensor()->rank();
  state.pipeline_rank = parts.ranks.pipeline()->rank();
  state.data_rank = parts.ranks.data()->rank();
  state.data_size = parts.ranks.data()->size();
  state.expert_rank = parts.model.part().expert_parallel.model_rank();
  state.expert_data_rank = parts.ranks.expert_data()->rank();
  state.expert_data_size = parts.ranks.expert_data()->size();
  // Megatron keeps this counter among the args: its load_checkpoint looks for it there, with 0 as
  // the default.
  if (progress.skipped_train_samples > 0) {
    state.args.set("skipped_train_samples", {progress.skipped_train_samples});
  }
  if (options_.ckpt_format == checkpoint::CheckpointFormat::kTorchDist) {
    // Rank files have the plain form, whatever the run's.
    state.args.set("use_distributed_optimizer",
                   {parts.optimizer.options().use_distributed_optimizer});
  }
  const bool with_optimizer = !options_.no_save_optim;
  const Status done = libtorch::torch_guard([&]() -> Status {
    MEG_ASSIGN_OR_RETURN(state.parameters,
                         snapshot_parameters(parts, with_optimizer, options_.async_save));
    // The copies to pinned memory are only queued so far. After this the snapshot is complete, and
    // the next step may change the weights.
    libtorch::synchronize(parts.model.options().device);
    return Status();
  });
  MEG_RETURN_IF_ERROR(done);
  if (with_optimizer) {
    state.optimizer = optimizer_state_of(parts);
    state.opt_param_scheduler = parts.scheduler.state_dict();
  }
  if (!options_.no_save_rng) {
    MEG_ASSIGN_OR_RETURN(state.rng, save_generators(seed_, options_.names, parts.model.part(),
                                                    parts.model.random_states()));
  }
  return state;
}

Result<CheckpointSaver::Staging> CheckpointSaver::stage(
    int64_t iteration, const parallel::ParallelState& ranks) const {
  const std::filesystem::path path =
      std::filesystem::path(*options_.save) / checkpoint::iteration_folder_name(iteration);
  const bool is_first = ranks.mesh().rank() == 0;
  Staging staging;
  // The name has the first rank's process id in it, so the others need to receive it.
  MEG_RETURN_IF_ERROR(ranks.agree(is_first ? create(path, staging.folder) : Status()));
  MEG_ASSIGN_OR_RETURN(
      staging.path, ranks.of_first_rank(is_first ? staging.folder->staging_path() : std::string()));
  return staging;
}

/// Called on the first rank, when all parts are written.
Status CheckpointSaver::complete(Staging& staging, const checkpoint::TrainingState& head) const {
  MEG_RETURN_IF_ERROR(checkpoint::complete_training_folder(staging.path, head, file_options()));
  MEG_RETURN_IF_ERROR(checkpoint::copy_tokenizer_files(
      options_.tokenizer_files,
      (std::filesystem::path(staging.path) / checkpoint::kTokenizerFolder).string()));
  MEG_RETURN_IF_ERROR(staging.folder->commit());
  return checkpoint::write_tracker(*options_.save, head.iteration);
}

Status CheckpointSaver::write(const checkpoint::TrainingState& state,
                              const parallel::ParallelState& ranks) const {
  MEG_ASSIGN_OR_RETURN(Staging staging, stage(state.iteration, ranks));
  MEG_RETURN_IF_ERROR(
      ranks.agree(checkpoint::write_training_file(staging.path, state, file_options())));
  return ranks.agree(ranks.mesh().rank() == 0 ? complete(staging, state) : Status());
}

Status CheckpointSaver::begin_writing(checkpoint::TrainingState&& state, RunParts parts) {
  PendingSave pending{.head = state, .rank = rank_of(parts.model.part()), .staging = {}};
  // What the first rank needs to complete the checkpoint later is the scalars. The tensors belong
  // to the writing task alone, so that their memory goes back as soon as this rank's files are
  // written.
  pending.head.parameters.clear();
  MEG_ASSIGN_OR_RETURN(pending.staging, stage(state.iteration, parts.ranks));
  const auto snapshot = std::make_shared<const checkpoint::TrainingState>(std::move(state));
  const Status begun = writer_.run([snapshot, path = pending.staging.path, file = file_options()] {
    return checkpoint::write_training_file(path, *snapshot, file);
  });
  MEG_RETURN_IF_ERROR(parts.ranks.agree(begun));
  pending_ = std::move(pending);
  return {};
}

/// Called after each rank's thread has ended.
Status CheckpointSaver::advance(const parallel::ParallelState& ranks, const PrintLine& print) {
  MEG_RETURN_IF_ERROR(ranks.agree(writer_.finish()));
  if (!pending_->completes) {
    pending_->completes = true;
    const bool is_first = ranks.mesh().rank() == 0;
    return ranks.agree(
        is_first ? writer_.run([this] { return complete(pending_->staging, pending_->head); })
                 : Status());
  }
  const logging::CheckpointLog log = checkpoint_log(options_.lines, options_.ckpt_format);
  print(log.saved_line(pending_->head.iteration, *options_.save, pending_->rank,
                       std::chrono::system_clock::now()));
  pending_.reset();
  return {};
}

Status CheckpointSaver::save(const TrainingProgress& progress, RunParts parts,
                             const PrintLine& print) {
  MEG_RETURN_IF_ERROR(finish(parts.ranks, print));
  const std::string& folder = *options_.save;
  const checkpoint::CheckpointFormat format = options_.ckpt_format;
  const logging::CheckpointLog log = checkpoint_log(options_.lines, format);
  print(log.saving_line(progress.iteration, folder, checkpoint::checkpoint_format_text(format),
                        std::chrono::system_clock::now()));
  MEG_ASSIGN_OR_RETURN(checkpoint::TrainingState state, snapshot(progress, parts));
  if (options_.async_save) {
    MEG_RETURN_IF_ERROR(begin_writing(std::move(state), parts));
    print(fmt::format("  scheduled an async checkpoint save at iteration {:7} to {}",
                      progress.iteration, folder));
  } else {
    MEG_RETURN_IF_ERROR(write(state, parts.ranks));
    print(log.saved_line(progress.iteration, folder, rank_of(parts.model.part()),
                         std::chrono::system_clock::now()));
  }
  last_iteration_ = progress.iteration;
  return {};
}

Status CheckpointSaver::poll(const parallel::ParallelState& ranks, const PrintLine& print) {
  if (!pending_.has_value()) return {};
  MEG_ASSIGN_OR_RETURN(const int64_t busy, ranks.max(writer_.is_busy() ? 1 : 0));
  return busy == 0 ? advance(ranks, print) : Status();
}

Status CheckpointSaver::finish(const parallel::ParallelState& ranks, const PrintLine& print) {
  while (pending_.has_value()) MEG_RETURN_IF_ERROR(advance(ranks, print));
  return {};
}

Status CheckpointSaver::check_folder() const {
  if (!enabled()) return {};
  const std::filesystem::path folder(*options_.save);
  return io::AtomicFile::create(folder / std::string(checkpoint::kTrackerName))
      .status()
      .with_prefix("`save`");
}

void CheckpointSaver::note_loaded(const checkpoint::MegatronCheckpoint& checkpoint,
                                  int64_t iteration) {
  checkpoint::keep_unsaid_args(checkpoint, &args_);
  std::error_code ignored;
  if (enabled() && std::filesystem::equivalent(*options_.load, *options_.save, ignored)) {
    last_iteration_ = iteration;
  }
}

}  // namespace meg::train
