#include "libmeg/checkpoint/convert/internal/target_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "libmeg/checkpoint/convert/internal/rng_states.h"
#include "libmeg/checkpoint/convert/internal/target_args.h"
#include "libmeg/checkpoint/convert/internal/target_model.h"
#include "libmeg/checkpoint/convert/internal/target_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/shape_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"

namespace meg::checkpoint {
namespace {

bool is_scheduler_key(std::string_view key) {
  return key == "opt_param_scheduler" || key == "lr_scheduler";
}

/// Writes the tree of one rank: a walk over the keys of the source rank that is closest to it (the
/// reference), each key carried over as it is except those that depend on the layout.
class TreeBuilder {
 public:
  TreeBuilder(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
              const ReshardOptions& options, int64_t stage, TargetFile* target)
      : checkpoint_(checkpoint),
        layout_(layout),
        options_(options),
        stage_(layout.stages[static_cast<size_t>(stage)]),
        target_(target) {
    // Ranks that the source did not have take after its last one.
    const RankPlace& place = target->place();
    const int64_t rank = std::min(place.tensor_rank, checkpoint.tensor_model_parallel_size() - 1);
    reference_ = checkpoint.file_index(rank, stage_.source_stage);
    moves_rng_ = moves_rng_seeds(checkpoint, layout);
    rng_file_ = moves_rng_ ? checkpoint.file_index(0, stage_.source_stage) : reference_;
    rng_shift_ = {.place = place, .stages = stage - stage_.source_stage};
  }

  Status build() {
    // Do this before anything is carried: shifted generators replace the source's nodes, and copies
    // of what holds these find the replacements.
    if (moves_rng_) {
      MEG_RETURN_IF_ERROR(
          shift_rng_seeds(checkpoint_, rng_file_, rng_shift_, options_.check_crcs, target_));
    }
    const std::span<const PickleId> found = source().pairs(file().root());
    const bool has_version = source().find(file().root(), "checkpoint_version").has_value();
    if (!checkpoint_.args(reference_).has_value()) MEG_RETURN_IF_ERROR(add_args());
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      MEG_RETURN_IF_ERROR(add_key(found[i], found[i + 1]));
    }
    if (!has_version && is_reordered()) add_version();
    target_->content().root = target_->graph().add_dict(std::move(pairs_));
    return Status();
  }

 private:
  const TorchFile& file() const {
    return *checkpoint_.files()[static_cast<size_t>(reference_)].file;
  }

  const PickleGraph& source() const { return file().graph(); }

  bool is_reordered() const { return checkpoint_.checkpoint_version() < kHeadByHead; }

  void add(PickleId key, PickleId value) {
    pairs_.push_back(key);
    pairs_.push_back(value);
  }

  Status add_key(PickleId key_node, PickleId value) {
    const std::string_view key = source().as_string(key_node).value_or("");
    if (is_model_key(key)) return add_models();
    if (!options_.keep_optimizer && (key == "optimizer" || is_scheduler_key(key))) return Status();
    if (key == "checkpoint_version" && is_reordered()) {
      add_version();
      return Status();
    }
    MEG_ASSIGN_OR_RETURN(const PickleId copied_key, target_->carry(reference_, key_node));
    PickleId copy = 0;
    if (key == "args") {
      MEG_ASSIGN_OR_RETURN(copy, carry_args(checkpoint_, layout_, reference_, value,
                                            said_dtype(options_, checkpoint_), target_));
    } else if (key == "optimizer" && checkpoint_.optimizer().form != OptimizerForm::kNone) {
      MEG_ASSIGN_OR_RETURN(copy, add_optimizer(checkpoint_, layout_, stage_, reference_, target_));
    } else if (is_rng_key(key) && rng_file_ != reference_) {
      const TorchFile& other = *checkpoint_.files()[static_cast<size_t>(rng_file_)].file;
      const std::optional<PickleId> states = other.graph().find(other.root(), key);
      if (!states.has_value()) return Status();
      MEG_ASSIGN_OR_RETURN(copy, target_->carry(rng_file_, *states));
    } else {
      MEG_ASSIGN_OR_RETURN(copy, target_->carry(reference_, value));
    }
    add(copied_key, copy);
    return Status();
  }

  /// Adds args to a checkpoint without them, from the flags that describe the model.
  Status add_args() {
    MEG_ASSIGN_OR_RETURN(
        const PickleId args,
        add_made_args(
            checkpoint_,
            {.tensor_model_parallel_size = layout_.ranks.tensor_size(),
             .pipeline_model_parallel_size = layout_.pipeline_model_parallel_size,
             .virtual_pipeline_model_parallel_size = layout_.virtual_pipeline_model_parallel_size},
            layout_.family, layout_.target_vocab_rows, &target_->graph()));
    add(target_->text("args"), args);
    return Status();
  }

  /// All chunks are placed where the source has its first one.
  Status add_models() {
    if (models_added_) return Status();
    models_added_ = true;
    for (size_t c = 0; c < stage_.chunks.size(); ++c) {
      MEG_ASSIGN_OR_RETURN(const PickleId model,
                           add_model(checkpoint_, layout_, stage_.chunks[c], target_));
      const std::string key = stage_.chunks.size() == 1 ? "model" : fmt::format("model{}", c);
      add(target_->text(key), model);
    }
    return Status();
  }

  /// Rows are written head by head; the version says so to readers.
  void add_version() {
    const std::optional<PickleId> args = checkpoint_.args(reference_);
    const auto has = [&](std::string_view name) {
      return args.has_value() && (source().attribute(*args, name).has_value() ||
                                  source().find(*args, name).has_value());
    };
    // Those revisions know versions up to 2.
    const bool is_old = has("model_parallel_size") && !has("tensor_model_parallel_size");
    add(target_->text("checkpoint_version"), target_->graph().add_float(is_old ? 2.0 : 3.0));
  }

  const MegatronCheckpoint& checkpoint_;
  const TargetLayout& layout_;
  const ReshardOptions& options_;
  const TargetStage& stage_;
  TargetFile* target_;
  int reference_ = 0;
  bool moves_rng_ = false;
  int rng_file_ = 0;
  RngShift rng_shift_;
  bool models_added_ = false;
  std::vector<PickleId> pairs_;
};

}  // namespace

std::optional<DType> said_dtype(const ReshardOptions& options,
                                const MegatronCheckpoint& checkpoint) {
  const bool has_optimizer =
      options.keep_optimizer && checkpoint.optimizer().form != OptimizerForm::kNone;
  return has_optimizer ? std::nullopt : options.params_dtype;
}

bool moves_rng_seeds(const MegatronCheckpoint& checkpoint, const TargetLayout& layout) {
  return layout.ranks.tensor_size() != checkpoint.tensor_model_parallel_size() ||
         layout.pipeline_model_parallel_size != checkpoint.pipeline_model_parallel_size() ||
         layout.ranks.expert_size() > 1;
}

Status add_tree(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                const ReshardOptions& options, int64_t stage, TargetFile* target) {
  return TreeBuilder(checkpoint, layout, options, stage, target).build();
}

}  // namespace meg::checkpoint
