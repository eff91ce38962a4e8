#include "libmeg/checkpoint/dialects/mp_rank/internal/changed_rank.h"

#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"

namespace meg::checkpoint {

Result<PickleId> changed_rank(const std::shared_ptr<const TorchFile>& file,
                              const RankChanges& changes, RankDraft* draft) {
  MEG_ASSIGN_OR_RETURN(const PickleId root, draft->copy(file));
  PickleGraph& graph = draft->graph();
  const ModelDicts models = find_model_dicts(*file);
  const std::vector<PickleId> found(graph.pairs(root).begin(), graph.pairs(root).end());
  std::vector<PickleId> pairs;
  size_t chunk = 0;
  for (size_t i = 0; i + 1 < found.size(); i += 2) {
    // A copy: the graph's strings move while it grows.
    const std::string key(graph.as_string(found[i]).value_or(""));
    std::optional<PickleId> value = found[i + 1];
    if (is_model_key(key) && chunk < models.dicts.size()) {
      MEG_ASSIGN_OR_RETURN(value, changes.model(*value, models.dicts[chunk++]));
    }
    if (key == "optimizer" && graph.node(*value).kind != PickleKind::kNone) {
      MEG_ASSIGN_OR_RETURN(value, changes.optimizer(*value));
    }
    if (value.has_value()) pairs.insert(pairs.end(), {found[i], *value});
  }
  return graph.add_dict(std::move(pairs));
}

}  // namespace meg::checkpoint
