#include "libmeg/checkpoint/convert/internal/target_model.h"

#include <string>
#include <string_view>

#include "libmeg/checkpoint/dialects/mp_rank/internal/state_dict_tree.h"
#include "libmeg/model/expert_names.h"

namespace meg::checkpoint {
namespace {

Result<PickleId> add_extra_state(const MegatronCheckpoint& checkpoint, const TargetEntry& entry,
                                 TargetFile* target) {
  if (entry.extra == nullptr) return target->none();
  const auto ranks = static_cast<int64_t>(entry.extra->nodes.size());
  const int64_t own = target->place().tensor_rank;
  const int64_t rank = own < ranks ? own : 0;
  return target->carry(checkpoint.file_index(rank, entry.extra->stage),
                       entry.extra->nodes[static_cast<size_t>(rank)]);
}

}  // namespace

Result<PickleId> add_model(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                           const std::vector<TargetEntry>& chunk, TargetFile* target) {
  StateDictTree tree(layout.family);
  for (const TargetEntry& entry : chunk) {
    // Ranks number their own experts from 0; the whole model counts them through.
    const int64_t first_expert = target->place().expert_rank * layout.experts_per_rank;
    std::string name = entry.name;
    if (entry.expert.has_value()) {
      const int64_t local = *entry.expert - first_expert;
      if (local < 0 || local >= layout.experts_per_rank) continue;
      name = model::with_expert(*model::parse_expert_name(entry.name), local);
    }
    PickleId value = 0;
    if (entry.parameter == nullptr) {
      MEG_ASSIGN_OR_RETURN(value, add_extra_state(checkpoint, entry, target));
    } else {
      MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, layout.shape(*entry.parameter));
      value = target->add_tensor(*entry.parameter, entry.parameter->tensors.at(0), shape);
    }
    tree.add(name, value);
  }
  return tree.write(&target->graph(), target->ordered_dict(),
                    [&](std::string_view text) { return target->text(text); });
}

}  // namespace meg::checkpoint
