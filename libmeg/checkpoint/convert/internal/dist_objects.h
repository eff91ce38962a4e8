#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// How items of a torch_dist folder are named.
struct DistNaming {
  model::NameFamily family = model::NameFamily::kMcoreTransformerEngine;
  /// Whether all layers share one name, without a number. Layers of hybrid models have names of
  /// their own, and so do GPT's if only some of them have experts.
  /// Mirrors `non_homogeneous_layers` of Megatron-LM's TransformerBlock.sharded_state_dict.
  bool is_stacked = true;

  /// Replaces {} in `spelling` by the layer's number.
  std::string of_layer(const std::string& spelling, int64_t layer) const;
};

/// The naming of a checkpoint's layers in this family.
DistNaming dist_naming(const MegatronCheckpoint& checkpoint, model::NameFamily family);

/// Writes the items of a torch_dist folder that are not tensors.
class DistObjects {
 public:
  /// All arguments must outlive this object.
  DistObjects(const MegatronCheckpoint& checkpoint, const DistNaming& naming,
              DistFolderWriter* writer)
      : checkpoint_(checkpoint), naming_(naming), writer_(*writer) {}

  /// Adds the extra state of every module whose readers ask for it: the source's, or else None.
  Status add_extra_states();

  /// Adds what each model-parallel rank has of its own, such as the states of its generators.
  Status add_rank_state(const RankFile& rank);

 private:
  /// The layers in which a module has parameters.
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
