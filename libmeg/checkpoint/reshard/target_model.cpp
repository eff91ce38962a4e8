#include "libmeg/checkpoint/reshard/target_model.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace meg {
namespace {

/// A dict in the making: values and dicts under keys, in order.
struct DictTree {
  struct Item {
    std::string key;
    PickleId value = 0;
    std::unique_ptr<DictTree> dict;  ///< Instead of a value.
  };

  std::vector<Item> items;

  DictTree* child(const std::string& key) {
    const auto found =
        std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.key == key; });
    if (found != items.end() && found->dict != nullptr) return found->dict.get();
    items.push_back({.key = key, .value = 0, .dict = std::make_unique<DictTree>()});
    return items.back().dict.get();
  }
};

/// Dicts that hold tensors are OrderedDicts, as torch's state_dict() makes them; those that
/// Megatron nests them in are plain.
PickleId add_dict(const DictTree& tree, TargetFile* target) {
  std::vector<PickleId> pairs;
  bool holds_values = tree.items.empty();
  for (const DictTree::Item& item : tree.items) {
    pairs.push_back(target->text(item.key));
    pairs.push_back(item.dict == nullptr ? item.value : add_dict(*item.dict, target));
    if (item.dict == nullptr) holds_values = true;
  }
  PickleGraph& graph = target->graph();
  if (!holds_values) return graph.add_dict(std::move(pairs));
  const PickleId ordered =
      graph.add_call(PickleCallForm::kReduce, target->ordered_dict(), graph.add_tuple({}));
  graph.mutable_call(ordered).pairs = std::move(pairs);
  return ordered;
}

Result<PickleId> add_extra_state(const MegatronCheckpoint& checkpoint, const TargetEntry& entry,
                                 TargetFile* target) {
  if (entry.extra == nullptr) return target->none();
  const auto ranks = static_cast<int64_t>(entry.extra->nodes.size());
  const int64_t rank = target->tensor_rank() < ranks ? target->tensor_rank() : 0;
  return target->carry(checkpoint.file_index(rank, entry.extra->stage),
                       entry.extra->nodes[static_cast<size_t>(rank)]);
}

}  // namespace

Result<PickleId> add_model(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                           const std::vector<TargetEntry>& chunk, TargetFile* target) {
  DictTree tree;
  for (const TargetEntry& entry : chunk) {
    PickleId value = 0;
    if (entry.parameter == nullptr) {
      MEG_ASSIGN_OR_RETURN(value, add_extra_state(checkpoint, entry, target));
    } else {
      MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, layout.shape(*entry.parameter));
      value = target->add_tensor(*entry.parameter, entry.parameter->tensors.at(0), shape);
    }
    std::vector<std::string> keys = nested_keys(entry.name, layout.family);
    DictTree* dict = &tree;
    for (size_t i = 0; i + 1 < keys.size(); ++i) dict = dict->child(keys[i]);
    dict->items.push_back({.key = std::move(keys.back()), .value = value, .dict = nullptr});
  }
  return add_dict(tree, target);
}

}  // namespace meg
