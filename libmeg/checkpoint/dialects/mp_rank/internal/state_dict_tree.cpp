#include "libmeg/checkpoint/dialects/mp_rank/internal/state_dict_tree.h"

#include <algorithm>
#include <utility>

// Megatron's older models nest the state_dict() of their modules in plain dicts
// (state_dict_for_save_checkpoint). So a dict that holds values is an OrderedDict here, and one
// that holds dicts alone is a plain dict.

namespace meg::checkpoint {

StateDictTree::Dict* StateDictTree::Dict::child(const std::string& key) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.key == key; });
  if (found != items.end() && found->dict != nullptr) return found->dict.get();
  items.push_back({.key = key, .value = 0, .dict = std::make_unique<Dict>()});
  return items.back().dict.get();
}

PickleId StateDictTree::Dict::write(PickleGraph* graph, PickleId ordered_dict,
                                    const TextNode& text) const {
  std::vector<PickleId> pairs;
  bool holds_values = items.empty();
  for (const Item& item : items) {
    pairs.push_back(text(item.key));
    pairs.push_back(item.dict == nullptr ? item.value
                                         : item.dict->write(graph, ordered_dict, text));
    if (item.dict == nullptr) holds_values = true;
  }
  if (!holds_values) return graph->add_dict(std::move(pairs));
  const PickleId ordered =
      graph->add_call(PickleCallForm::kReduce, ordered_dict, graph->add_tuple({}));
  graph->mutable_call(ordered).pairs = std::move(pairs);
  return ordered;
}

void StateDictTree::add(std::string_view flat_name, PickleId value) {
  std::vector<std::string> keys = model::nested_keys(flat_name, family_);
  Dict* dict = &root_;
  for (size_t i = 0; i + 1 < keys.size(); ++i) dict = dict->child(keys[i]);
  dict->items.push_back({.key = std::move(keys.back()), .value = value, .dict = nullptr});
}

PickleId StateDictTree::write(PickleGraph* graph, PickleId ordered_dict,
                              const TextNode& text) const {
  return root_.write(graph, ordered_dict, text);
}

}  // namespace meg::checkpoint
