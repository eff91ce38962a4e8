#include "libmeg/checkpoint/convert/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "libmeg/checkpoint/convert/internal/source_checks.h"
#include "libmeg/checkpoint/convert/internal/target_file.h"
#include "libmeg/checkpoint/convert/internal/target_flat_state.h"
#include "libmeg/checkpoint/convert/internal/target_layout.h"
#include "libmeg/checkpoint/convert/internal/target_tree.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"

// Plans another layout from metadata alone: everything that can be refused is refused before a byte
// is written. The plan is the trees of the target's files and the transfers that fill them.

namespace meg::checkpoint {
namespace {

Status check_optimizer(const MegatronCheckpoint& checkpoint, const ReshardOptions& options) {
  if (!options.keep_optimizer) return Status();
  const TorchFile& first = *checkpoint.files()[0].file;
  const std::optional<PickleId> optimizer = first.graph().find(first.root(), "optimizer");
  switch (checkpoint.optimizer().form) {
    case OptimizerForm::kDistributed:
      return missing_distrib_optim(checkpoint);
    case OptimizerForm::kNone:
      // An optimizer in an unreadable form that was not explicitly left out must not silently
      // disappear.
      if (optimizer.has_value() && first.graph().node(*optimizer).kind != PickleKind::kNone) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: optimizer: expected it to be read or omitted, found neither",
                          first.path());
      }
      return Status();
    default:
      return Status();
  }
}

void note_expert_tensor_size(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                             std::vector<std::string>* notes) {
  if (layout.experts_per_rank == 0) return;
  const int64_t source = int_arg(checkpoint, "expert_tensor_parallel_size")
                             .value_or(checkpoint.tensor_model_parallel_size());
  if (source == checkpoint.tensor_model_parallel_size() && !layout.ranks.divides_experts_apart()) {
    return;
  }
  notes->push_back(fmt::format("expert tensor-parallel size: {} -> {}", source,
                               layout.ranks.expert_tensor_size()));
}

void add_notes(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
               const ReshardOptions& options, std::vector<std::string>* notes) {
  const TorchFile& first = *checkpoint.files()[0].file;
  const auto has = [&](std::string_view key) {
    return first.graph().find(first.root(), key).has_value();
  };
  if (!options.keep_optimizer && has("optimizer")) {
    notes->push_back("the optimizer state and the scheduler are omitted");
  }
  const bool was_distributed = checkpoint.optimizer().is_distributed;
  if (options.keep_optimizer && was_distributed != layout.has_distributed_optimizer) {
    notes->push_back(was_distributed ? "the distributed optimizer becomes the plain one"
                                     : "the optimizer becomes the distributed one");
  }
  note_expert_tensor_size(checkpoint, layout, notes);
  const int64_t tensor_size = layout.ranks.tensor_size();
  if (!layout.true_vocab_size.has_value() &&
      tensor_size != checkpoint.tensor_model_parallel_size()) {
    notes->push_back(fmt::format(
        "args do not state the vocabulary of the {} rows: they are kept, and a run that does not "
        "take padded_vocab_size from args pads its tokenizer's to a multiple of {}; "
        "`true_vocab_size` pads the table in the same way",
        layout.target_vocab_rows, checkpoint.config().make_vocab_size_divisible_by * tensor_size));
  }
  if (!layout.names_kept) {
    notes->push_back(fmt::format("names become {}", model::name_family_text(layout.family)));
  }
  if (shares_query_groups(checkpoint, layout)) {
    notes->push_back(
        fmt::format("{} query groups over {} tensor ranks: only core 0.16 and later can read this",
                    checkpoint.config().num_query_groups, layout.ranks.tensor_size()));
  }
  if (options.params_dtype.has_value()) {
    const bool is_said = said_dtype(options, checkpoint).has_value();
    notes->push_back(fmt::format("weights become {}; args {}", dtype_name(*options.params_dtype),
                                 is_said ? "say so" : "unchanged, as the optimizer needs them"));
  }
  const bool has_rank_files = !is_composed(checkpoint.folder().format);
  if (has_rank_files && checkpoint.expert_model_parallel_size() > 1) {
    notes->push_back(
        fmt::format("state that {} expert-parallel ranks share, and their random number "
                    "generators, are taken from the first",
                    checkpoint.expert_model_parallel_size()));
  }
  if (checkpoint.checkpoint_version() < 2) {
    notes->push_back(fmt::format(
        "rows of query_key_value are reordered from checkpoint version {} to head by head",
        checkpoint.checkpoint_version()));
  }
  if (moves_rng_seeds(checkpoint, layout) && (has("rng_state") || has("cuda_rng_state"))) {
    notes->push_back(
        "random number generators: every stage takes those of tensor rank 0 of its first layer's "
        "stage; CUDA seeds are shifted by Megatron's rule (100 per stage, 1 per tensor rank)");
  }
}

void count_parameters(const MegatronCheckpoint& checkpoint, ReshardPlan* plan) {
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    int64_t count = 1;
    for (const int64_t size : parameter.shape) count *= size;
    plan->parameter_count += count;
  }
}

}  // namespace

/// Planning reads metadata only and decides everything: what is refused is refused before any
/// output, and two plans of one source and options are equal.
Result<ReshardPlan> plan_reshard(const MegatronCheckpoint& checkpoint,
                                 const ReshardOptions& options) {
  MEG_RETURN_IF_ERROR(check_optimizer(checkpoint, options));
  if (options.keep_optimizer && options.check_masters) {
    MEG_RETURN_IF_ERROR(check_masters(checkpoint));
  }
  MEG_ASSIGN_OR_RETURN(const TargetLayout layout, lay_out_target(checkpoint, options));
  ReshardPlan plan;
  plan.source_padded_vocab_size = layout.source_vocab_rows;
  plan.target_padded_vocab_size = layout.target_vocab_rows;
  plan.true_vocab_size = layout.true_vocab_size;
  plan.dropped_padding_rows =
      std::max<int64_t>(0, layout.source_vocab_rows - layout.target_vocab_rows);
  plan.added_padding_rows =
      std::max<int64_t>(0, layout.target_vocab_rows - layout.source_vocab_rows);
  count_parameters(checkpoint, &plan);
  MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint, options.keep_optimizer, &plan.notes));
  note_drifted_replicas(checkpoint, options.keep_optimizer, &plan.notes);
  add_notes(checkpoint, layout, options, &plan.notes);
  plan.notes.insert(plan.notes.end(), checkpoint.notes().begin(), checkpoint.notes().end());

  // One builder for all files, since a tensor's transfer has targets in several of them: it is read
  // once.
  TransferBuilder transfers(layout, options.params_dtype);
  for (int64_t p = 0; p < layout.pipeline_model_parallel_size; ++p) {
    for (int64_t i = 0; i < layout.ranks.size(); ++i) {
      const RankPlace place = layout.ranks.place(i);
      TargetFile target(checkpoint, &transfers, place);
      MEG_RETURN_IF_ERROR(add_tree(checkpoint, layout, options, p, &target));
      const std::string folder =
          rank_folder_name(place.tensor_rank, p, layout.pipeline_model_parallel_size,
                           place.expert_rank, layout.ranks.expert_size());
      MEG_ASSIGN_OR_RETURN(TransferTargetFile file,
                           target.finish(fmt::format("{}/{}", folder, kModelFile)));
      plan.transfers.targets.push_back(std::move(file));
      if (!layout.has_distributed_optimizer) continue;
      MEG_ASSIGN_OR_RETURN(
          TransferTargetFile state,
          add_flat_state(checkpoint, layout, p, place,
                         fmt::format("{}/{}", folder, kDistribOptimFile), &transfers));
      plan.transfers.targets.push_back(std::move(state));
    }
  }
  plan.transfers.transfers = transfers.take();
  return plan;
}

}  // namespace meg::checkpoint
