#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"

namespace meg::checkpoint {

// Nodes are first added empty and filled later, so neither depth nor cycles matter here.
Result<PickleId> PickleCopier::copy(PickleId id) {
  std::vector<PickleId> to_fill;
  const auto target_of = [&](PickleId source) {
    const auto [entry, is_new] = copied_.try_emplace(source);
    if (is_new) {
      // A call's node owns an entry of the graph's calls, which only add_call() makes; every other
      // kind can be written over a None.
      const bool is_call = from_.node(source).kind == PickleKind::kCall;
      entry->second = is_call ? to_.add_call(from_.call(source).form, 0, 0) : to_.add_none();
      to_fill.push_back(source);
    }
    return entry->second;
  };
  const auto targets_of = [&](const std::vector<PickleId>& sources) {
    std::vector<PickleId> targets;
    targets.reserve(sources.size());
    for (const PickleId source : sources) targets.push_back(target_of(source));
    return targets;
  };
  const PickleId root = target_of(id);
  while (!to_fill.empty()) {
    if (to_.size() > kMaxPickleNodes) {
      return make_error(StatusCode::kResourceExhausted,
                        "pickle: copy: expected at most {} values, found more", kMaxPickleNodes);
    }
    const PickleId source = to_fill.back();
    const PickleId target = copied_.at(source);
    to_fill.pop_back();
    PickleNode node = from_.node(source);
    // The number of the entry in this graph, not of that in the other.
    node.call = to_.node(target).call;
    node.children = targets_of(node.children);
    if (node.kind == PickleKind::kCall) {
      const PickleCall call = from_.call(source);
      PickleCall copied{call.form, targets_of(call.items), targets_of(call.pairs),
                        targets_of(call.states)};
      to_.mutable_call(target) = std::move(copied);
    }
    to_.mutable_node(target) = std::move(node);
  }
  return root;
}

}  // namespace meg::checkpoint
