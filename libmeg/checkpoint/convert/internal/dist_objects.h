#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The layers that are there, of any parameter.
std::set<int64_t> layers_of(const MegatronCheckpoint& checkpoint);

/// The name under which torch_dist keeps what is spelled so with {} for the layer's number: a
/// hybrid model's layers have a name each, GPT's are stacked under one, without the number.
std::string saved_layer_name(const std::string& spelling, int64_t layer, model::NameFamily family);

/// Writes what a torch_dist folder has beside tensors.
class DistObjects {
 public:
  /// family: of the names that are written. What is referred to outlives this.
  DistObjects(const MegatronCheckpoint& checkpoint, model::NameFamily family,
              DistFolderWriter* writer)
      : checkpoint_(checkpoint), family_(family), writer_(*writer) {}

  /// Of the modules whose readers ask for it, as the source has it, or None.
  Status add_extra_states();

  /// What a model-parallel rank has for itself.
  Status add_rank_state(const RankFile& rank);

 private:
  bool is_hybrid() const { return family_ == model::NameFamily::kHybrid; }

  bool has_module(const std::string& module) const;
  std::string layer_item(const std::string& canonical, int64_t layer, std::optional<int64_t> place,
                         int64_t count) const;
  Status add_expert_extra_states();
  Status add_old_rng(const std::string& name, const TorchFile& file);
  Status add_object(const std::string& name, const TorchFile* file, PickleId node);

  const MegatronCheckpoint& checkpoint_;
  model::NameFamily family_;
  DistFolderWriter& writer_;
};

}  // namespace meg::checkpoint
