#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/pickle/internal/pickle_memo.h"
#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

namespace meg::checkpoint {

/// The stack machine that a pickle is a program for. It builds nodes of a graph where Python would
/// build objects, and calls nothing. Every operation checks what it takes from the stack; errors
/// say "what: expected, found" and leave the place to the caller.
class PickleMachine {
 public:
  /// The graph must outlive the machine; nothing else may add to it meanwhile.
  PickleMachine(PickleGraph* graph, size_t max_values)
      : graph_(graph), first_(graph->size()), max_values_(max_values) {}

  PickleGraph& graph() { return *graph_; }

  // ---- Values ----

  /// Takes the node that was just added to the graph.
  Status push(PickleId added);

  /// Pushes a value of a kind that has no function of its own in PickleGraph.
  Status push_text(PickleKind kind, std::string text);
  Status push_twos_complement(std::string_view little_endian);

  // ---- The stack ----

  Status mark();
  Status pop();
  Status pop_mark();
  Status dup();

  /// Takes the last value.
  Result<PickleId> take(std::string_view what);

  // ---- Containers ----

  Status tuple_of(size_t count);
  Status collect(PickleKind kind);  ///< kTuple, kList, kDict or kFrozenSet from what follows MARK.
  Status append();
  Status appends();
  Status set_item();
  Status set_items();
  Status add_items();

  // ---- Names and calls ----

  Status global(std::string module, std::string name, bool is_path);
  Status stack_global();
  Status persistent();
  Status call(PickleCallForm form);
  Status call_marked(std::string module, std::string name);  ///< INST
  Status call_marked();                                      ///< OBJ
  Status build();

  // ---- The memo ----

  Status put(uint32_t index);
  Status memoize();
  Status get(uint32_t index);

 private:
  size_t fence() const { return marks_.empty() ? 0 : marks_.back(); }

  Status push_known(PickleId id);
  Result<PickleId> top(std::string_view what) const;
  Result<std::vector<PickleId>> take_to_mark(std::string_view what);

  /// Adds children to a container that stands on the stack.
  Status extend(PickleId container, const std::vector<PickleId>& items, std::string_view what);
  Status extend_pairs(PickleId container, const std::vector<PickleId>& items,
                      std::string_view what);
  Status deepen(PickleId parent, const std::vector<PickleId>& children);

  bool is_state_setter(PickleId call) const;

  static Status wrong_kind(std::string_view what, std::string_view expected, PickleKind found);

  PickleGraph* graph_;
  size_t first_;  // nodes of the graph before this pickle
  size_t max_values_;
  std::vector<uint16_t> depth_;  // of node first_ + i, as known when it was last changed
  std::vector<bool> taken_;      // whether a call has taken node first_ + i as an argument
  std::vector<PickleId> stack_;
  std::vector<uint32_t> marks_;  // stack heights at each MARK
  PickleMemo memo_;
};

}  // namespace meg::checkpoint
