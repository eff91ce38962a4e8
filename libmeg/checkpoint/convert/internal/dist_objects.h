#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The names of what torch_dist keeps.
struct DistNaming {
  model::NameFamily family = model::NameFamily::kMcoreTransformerEngine;
  /// All layers under one name, without a number. Hybrid layers have a name each, as have GPT's
  /// where some have experts and some have not.
  /// Mirrors `non_homogeneous_layers` of Megatron-LM's TransformerBlock.sharded_state_dict.
  bool is_stacked = true;

  /// What is spelled so with {} for the layer's number.
  std::string of_layer(const std::string& spelling, int64_t layer) const;
};

/// How a checkpoint's layers are named in this family.
DistNaming dist_naming(const MegatronCheckpoint& checkpoint, model::NameFamily family);

/// Writes what a torch_dist folder has beside tensors.
class DistObjects {
 public:
  /// What is referred to outlives this.
  DistObjects(const MegatronCheckpoint& checkpoint, const DistNaming& naming,
              DistFolderWriter* writer)
      : checkpoint_(checkpoint), naming_(naming), writer_(*writer) {}

  /// Of the modules whose readers ask for it, as the source has it, or None.
  Status add_extra_states();

  /// What a model-parallel rank has for itself.
  Status add_rank_state(const RankFile& rank);

 private:
  /// Of modules that parameters are of, the layers.
  std::set<int64_t> layers_with(const std::string& module) const;
  std::string layer_item(const std::string& canonical, int64_t layer, std::optional<int64_t> place,
                         int64_t count) const;
  Status add_expert_extra_states();
  Status add_old_rng(const std::string& name, const TorchFile& file);
  Status add_object(const std::string& name, const TorchFile* file, PickleId node);

  const MegatronCheckpoint& checkpoint_;
  DistNaming naming_;
  DistFolderWriter& writer_;
};

}  // namespace meg::checkpoint
