#include "libmeg/checkpoint/container/pickle/internal/pickle_machine.h"

#include <algorithm>
#include <utility>

#include "libmeg/checkpoint/container/pickle/internal/pickle_integer.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"

// A stack machine as CPython's unpickler is one: values, marks and a memo. What it never does is
// import or call (docs/decisions/11-pickles.md). Bytes decide nothing about its memory but through
// three bounds: values made, entries of stack and memo, and nesting.

namespace meg::checkpoint {

namespace {

Status too_many(std::string_view what, size_t most) {
  return make_error(StatusCode::kResourceExhausted, "{}: expected at most {}, found more", what,
                    most);
}

}  // namespace

// ---- Values ----

Status PickleMachine::push(PickleId added) {
  // Values are counted, not bytes: a node takes many times the byte or two that asks for it.
  if (depth_.size() >= max_values_) return too_many("values", max_values_);
  depth_.push_back(0);
  taken_.push_back(false);
  MEG_RETURN_IF_ERROR(deepen(added, graph_->node(added).children));
  return push_known(added);
}

Status PickleMachine::push_known(PickleId id) {
  // Two bytes (DUP, or GET of a memo entry) push a value that is there already: bounding nodes
  // alone would not bound the stack.
  if (stack_.size() >= kMaxPickleNodes) return too_many("values on the stack", kMaxPickleNodes);
  stack_.push_back(id);
  return Status();
}

Status PickleMachine::push_text(PickleKind kind, std::string text) {
  PickleNode node;
  node.kind = kind;
  node.text = std::move(text);
  return push(graph_->add(std::move(node)));
}

Status PickleMachine::push_twos_complement(std::string_view little_endian) {
  const std::string_view shortest = shortest_twos_complement(little_endian);
  if (shortest.size() <= sizeof(int64_t)) {
    return push(graph_->add_int(small_twos_complement(shortest)));
  }
  return push_text(PickleKind::kBigInt, std::string(shortest));
}

Status PickleMachine::deepen(PickleId parent, const std::vector<PickleId>& children) {
  // Only the parent's depth changes, not that of what holds the parent: a pickle may fill a
  // container after it has been put into another one. So this bounds what files of picklers nest,
  // and walkers still bound their own depth (PickleGraph).
  uint16_t& depth = depth_[parent - first_];
  for (const PickleId child : children) {
    depth = std::max(depth, static_cast<uint16_t>(depth_[child - first_] + 1));
  }
  if (depth > PickleGraph::kMaxDepth) {
    return make_error(StatusCode::kResourceExhausted,
                      "nesting: expected at most {} levels, found more", PickleGraph::kMaxDepth);
  }
  return Status();
}

// ---- The stack ----

Status PickleMachine::mark() {
  // Each open mark belongs to a container inside that of the mark before.
  if (marks_.size() >= PickleGraph::kMaxDepth) {
    return make_error(StatusCode::kResourceExhausted,
                      "MARK: expected at most {} open marks, found more", PickleGraph::kMaxDepth);
  }
  marks_.push_back(static_cast<uint32_t>(stack_.size()));
  return Status();
}

Status PickleMachine::pop() {
  // As in CPython, POP removes a MARK if that is on top.
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
    return Status();
  }
  MEG_ASSIGN_OR_RETURN(const PickleId dropped, take("POP"));
  if (is_state_setter(dropped)) {
    return make_error(StatusCode::kUnsupported,
                      "POP: expected an object that sets its own state, found a call of {} for it",
                      graph_->class_name(dropped));
  }
  return Status();
}

Status PickleMachine::pop_mark() { return take_to_mark("POP_MARK").status(); }

Status PickleMachine::dup() {
  MEG_ASSIGN_OR_RETURN(const PickleId id, top("DUP"));
  return push_known(id);
}

Result<PickleId> PickleMachine::top(std::string_view what) const {
  // Values below the last MARK belong to an unfinished container; no opcode may take them.
  if (stack_.size() <= fence()) {
    return make_error(StatusCode::kCorruption, "{}: expected a value on the stack, found {}", what,
                      marks_.empty() ? "none" : "a MARK");
  }
  return stack_.back();
}

Result<PickleId> PickleMachine::take(std::string_view what) {
  MEG_ASSIGN_OR_RETURN(const PickleId id, top(what));
  stack_.pop_back();
  return id;
}

Result<std::vector<PickleId>> PickleMachine::take_to_mark(std::string_view what) {
  if (marks_.empty()) {
    return make_error(StatusCode::kCorruption, "{}: expected a MARK on the stack, found none",
                      what);
  }
  const auto first = stack_.begin() + marks_.back();
  std::vector<PickleId> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

// ---- The memo ----

Status PickleMachine::put(uint32_t index) {
  if (memo_.size() >= kMaxPickleNodes) return too_many("values in the memo", kMaxPickleNodes);
  MEG_ASSIGN_OR_RETURN(const PickleId id, top("PUT"));
  memo_.put(index, id);
  return Status();
}

/// The next index is the number of entries, as in CPython, also where PUT has left gaps.
Status PickleMachine::memoize() { return put(static_cast<uint32_t>(memo_.size())); }

Status PickleMachine::get(uint32_t index) {
  const std::optional<PickleId> id = memo_.get(index);
  if (!id) {
    return make_error(StatusCode::kCorruption, "GET: expected a memo entry {}, found none", index);
  }
  return push_known(*id);
}

}  // namespace meg::checkpoint
