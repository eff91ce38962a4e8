#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// Builds the dict of a model chunk: nests flat names as their family does, in the order in which
/// they are added.
class StateDictTree {
 public:
  /// Returns the node of a key; equal texts have the same node.
  using TextNode = std::function<PickleId(std::string_view)>;

  explicit StateDictTree(model::NameFamily family) : family_(family) {}

  void add(std::string_view flat_name, PickleId value);

  /// Adds the tree to `graph`. Dicts that hold tensors become OrderedDicts (calls of
  /// `ordered_dict`), as torch's state_dict() makes them; the dicts around them are plain, as
  /// Megatron's are.
  PickleId write(PickleGraph* graph, PickleId ordered_dict, const TextNode& text) const;

 private:
  struct Dict;

  struct Item {
    std::string key;
    PickleId value = 0;
    std::unique_ptr<Dict> dict;  ///< Instead of a value.
  };

  struct Dict {
    std::vector<Item> items;

    Dict* child(const std::string& key);
    PickleId write(PickleGraph* graph, PickleId ordered_dict, const TextNode& text) const;
  };

  model::NameFamily family_;
  Dict root_;
};

}  // namespace meg::checkpoint
