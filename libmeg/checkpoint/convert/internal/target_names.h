#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libmeg/checkpoint/convert/internal/target_layout.h"

namespace meg::checkpoint {

/// What lies in one chunk of a target stage.
struct ChunkContent {
  int64_t first_layer = 0, layer_count = 0;
  bool is_first = false;  ///< Holds the embedding.
  bool is_last = false;   ///< Holds the final norm and the output layer.
  /// The embedding, where this chunk gets the tied copy of it.
  const LogicalParameter* tied_embedding = nullptr;

  bool holds_layer(int64_t layer) const {
    return first_layer <= layer && layer < first_layer + layer_count;
  }

  bool holds(model::Placement placement) const {
    return placement == model::Placement::kEmbedding ? is_first : is_last;
  }
};

/// The keys of target chunks. Where the source's family is kept so are its spellings, its order and
/// its extra state; in another family the table says names and order, and `_extra_state` keys hold
/// None as that family's local layers write them.
class TargetNames {
 public:
  /// family: as asked for; without one the source's. The checkpoint outlives the result.
  static Result<TargetNames> choose(const MegatronCheckpoint& checkpoint,
                                    std::optional<model::NameFamily> family);

  model::NameFamily family() const { return family_; }

  bool kept() const { return kept_; }

  /// The names in the order of the chunk's state_dict(). kUnsupported if a name has no spelling.
  Result<std::vector<TargetEntry>> entries(const ChunkContent& content) const;

 private:
  /// An entry and where it stands.
  struct Placed {
    model::Placement placement = model::Placement::kLayer;
    int64_t layer = 0;
    int position = 0;  ///< Within its layer, or beside the layers.
    TargetEntry entry;
  };

  TargetNames(const MegatronCheckpoint& checkpoint, model::NameFamily family)
      : checkpoint_(&checkpoint), family_(family), kept_(family == checkpoint.family()) {}

  Status read_source_order();
  int source_position(const std::string& spelling) const;
  Result<Placed> place(const LogicalParameter& parameter, const ChunkContent& content) const;
  Placed place_tied_copy(const ChunkContent& content) const;
  void add_kept_extra_states(const ChunkContent& content, std::vector<Placed>* placed) const;
  void add_new_extra_states(const ChunkContent& content, std::vector<Placed>* placed) const;
  bool is_on_every_chunk(const ExtraState& extra) const;

  const MegatronCheckpoint* checkpoint_;
  model::NameFamily family_;
  bool kept_;
  bool short_norms_ = false;
  std::set<int64_t> expert_layers_;  ///< Layers that have experts.
  /// Spellings in the order in which the source's dicts first hold them.
  std::map<std::string, int> source_order_;
};

}  // namespace meg::checkpoint
