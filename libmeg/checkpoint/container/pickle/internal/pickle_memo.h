#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

namespace meg::checkpoint {

/// The memo of a pickle: values by number. Picklers count 0, 1, 2 ..., which an array holds; any
/// other number, as a hostile pickle may use, costs one map entry, never an array up to it.
class PickleMemo {
 public:
  void put(uint32_t index, PickleId id) {
    if (index < counted_.size()) {
      counted_[index] = id;
    } else if (index == counted_.size()) {
      counted_.push_back(id);
      if (!odd_.empty()) odd_.erase(index);
    } else {
      odd_[index] = id;
    }
  }

  std::optional<PickleId> get(uint32_t index) const {
    if (index < counted_.size()) return counted_[index];
    const auto found = odd_.find(index);
    if (found == odd_.end()) return std::nullopt;
    return found->second;
  }

  /// Numbers in use.
  size_t size() const { return counted_.size() + odd_.size(); }

 private:
  std::vector<PickleId> counted_;
  std::map<uint32_t, PickleId> odd_;
};

}  // namespace meg::checkpoint
