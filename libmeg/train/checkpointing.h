#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/training/async_writer.h"
#include "libmeg/checkpoint/training/training_file.h"
#include "libmeg/checkpoint/training/training_state.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/logging/checkpoint_log.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/model/parameter_table.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/schedule/optimizer_param_scheduler.h"
#include "libmeg/train/model_chunks.h"
#include "libmeg/train/optimizer.h"

namespace meg::train {

/// Where a run is saved and from what it starts. Names are those of Megatron's flags.
struct CheckpointOptions {
  std::optional<std::string> load;
  /// The iteration to load instead of the one that the tracker names.
  std::optional<int64_t> ckpt_step;
  std::optional<std::string> save;
  std::optional<int64_t> save_interval;
  bool finetune = false;
  bool no_load_optim = false;
  bool no_load_rng = false;
  bool no_save_optim = false;
  bool no_save_rng = false;
  bool exit_on_missing_checkpoint = false;
  bool async_save = false;
  model::NameFamily names = model::NameFamily::kMcoreLocal;
  checkpoint::CheckpointFormat ckpt_format = checkpoint::CheckpointFormat::kMpRank;
  /// Fields of args in which run and checkpoint may differ.
  std::vector<std::string> not_compared;
  /// Saved beside the weights, in the folder "tokenizer" of each checkpoint.
  std::vector<checkpoint::TokenizerFile> tokenizer_files;
  /// The form of log lines about checkpoints; unset: kRelease for rank files, kRankOfAll for
  /// torch_dist.
  std::optional<megatron::CheckpointLines> lines;
  checkpoint::OpenCheckpointOptions open;  ///< Rules for parameters, shapes for files without args.
};

/// The progress of a run.
struct TrainingProgress {
  int64_t iteration = 0;
  int64_t consumed_train_samples = 0;
  int64_t consumed_valid_samples = 0;
  int64_t skipped_train_samples = 0;  ///< In skipped iterations; counted among the consumed ones.
  double floating_point_operations = 0;
};

/// The parts of a run whose state is saved in a checkpoint.
struct RunParts {
  ModelChunks& model;
  Optimizer& optimizer;
  schedule::OptimizerParamScheduler& scheduler;
  const parallel::ParallelState& ranks;
};

using PrintLine = std::function<void(const std::string&)>;

/// Whether there is nothing to load: no folder, or a folder without a tracker, as before the first
/// save of a run that saves there.
bool lacks_checkpoint(const std::string& load);

/// Opens the checkpoint that --load names; nullopt, with Megatron's warning, if there is none.
/// kNotFound with exit_on_missing_checkpoint, and if an iteration that was requested or that the
/// tracker names does not exist.
Result<std::optional<checkpoint::MegatronCheckpoint>> open_checkpoint(
    const CheckpointOptions& options, const PrintLine& print);

/// Loads a checkpoint of any layout into a run. run: the run's args under Megatron's names. Mirrors
/// Megatron-LM megatron/training/checkpointing.py: load_checkpoint.
Result<TrainingProgress> load_checkpoint(const checkpoint::MegatronCheckpoint& checkpoint,
                                         const CheckpointOptions& options,
                                         const megatron::FieldLookup& run, RunParts parts,
                                         const PrintLine& print);

/// Saves runs, in the background with async_save.
class CheckpointSaver {
 public:
  CheckpointSaver(CheckpointOptions options, checkpoint::TrainingArgs args, int64_t seed)
      : options_(std::move(options)), args_(std::move(args)), seed_(seed) {}

  bool enabled() const { return options_.save.has_value(); }

  /// Creates the folder. Fails if nothing could be saved in it.
  Status check_folder() const;

  /// The newest iteration in the folder: the one saved last, or the loaded one if --load and --save
  /// are the same folder; nullopt before the first.
  std::optional<int64_t> last_iteration() const { return last_iteration_; }

  /// Records that the run starts from the checkpoint of this iteration in --load.
  void note_loaded(const checkpoint::MegatronCheckpoint& checkpoint, int64_t iteration);

  /// Called by all ranks, each of which writes its part: see write_training_file. Waits for an
  /// earlier save in the background.
  Status save(const TrainingProgress& progress, RunParts parts, const PrintLine& print);

  /// Called by all ranks between steps: advances a background save as far as possible without
  /// waiting, and reports when it has succeeded or failed.
  Status poll(const parallel::ParallelState& ranks, const PrintLine& print);

  /// Called by all ranks. Waits for a save in the background.
  Status finish(const parallel::ParallelState& ranks, const PrintLine& print);

 private:
  checkpoint::TrainingFileOptions file_options() const {
    return {.format = options_.ckpt_format, .names = options_.names};
  }

  /// Where each rank writes its part of a checkpoint.
  struct Staging {
    std::optional<io::AtomicFolder>
        folder;  ///< Only on the first rank, which completes the checkpoint.
    std::string path;
  };

  /// A save in the background: all ranks write their parts, then the first one completes the
  /// checkpoint. Its threads do not communicate with other ranks, so as not to interfere with the
  /// collectives of steps.
  struct PendingSave {
    checkpoint::TrainingState head;  ///< Without tensors.
    logging::ModelRank rank;
    Staging staging;
    bool completes = false;  ///< All parts are written; the checkpoint is being completed.
  };

  Result<checkpoint::TrainingState> snapshot(const TrainingProgress& progress,
                                             RunParts parts) const;
  Result<Staging> stage(int64_t iteration, const parallel::ParallelState& ranks) const;
  Status complete(Staging& staging, const checkpoint::TrainingState& head) const;
  Status write(const checkpoint::TrainingState& state, const parallel::ParallelState& ranks) const;
  Status begin_writing(checkpoint::TrainingState&& state, RunParts parts);
  Status advance(const parallel::ParallelState& ranks, const PrintLine& print);

  CheckpointOptions options_;
  checkpoint::TrainingArgs args_;
  int64_t seed_;
  std::optional<PendingSave> pending_;
  checkpoint::AsyncWriter writer_;  ///< Must be destroyed before what it writes to.
  std::optional<int64_t> last_iteration_;
};

}  // namespace meg::train
