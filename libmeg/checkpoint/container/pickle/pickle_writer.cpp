#include "libmeg/checkpoint/container/pickle/pickle_writer.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "libmeg/checkpoint/container/pickle/internal/pickle_output.h"
#include "libmeg/checkpoint/container/pickle/internal/pickle_substitutes.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {

namespace {

/// CPython's _BATCHSIZE.
constexpr size_t kBatch = 1000;

/// Walks a graph as CPython's pickler walks objects. Only containers that were begun but not
/// finished are entered twice, as there; kMaxDepth and kMaxPickleBytes end what has no end.
class PickleWriter {
 public:
  explicit PickleWriter(const PickleGraph& graph) : graph_(graph) {}

  Result<std::vector<std::byte>> write(PickleId root);

 private:
  Status save(PickleId id);
  Status save_value(PickleId id);
  Status save_all(std::span<const PickleId> ids);

  void save_number(const PickleNode& node);
  void save_text(PickleId id);
  Status save_tuple(PickleId id);
  Status save_arguments(PickleId id);
  void close_tuple(PickleId id);
  Status save_list(PickleId id);
  Status save_elements(std::span<const PickleId> elements);
  Status save_dict(PickleId id);
  Status save_set(PickleId id);
  Status save_global(PickleId id);
  Status save_call(PickleId id);
  bool finish_call(PickleId id);

  /// What a call's result is given after it was made.
  Status save_items(std::span<const PickleId> items);
  Status save_pairs(std::span<const PickleId> pairs);

  void put(PickleId id) { memo_[id] = output_.put(); }

  /// Fetches a value from the memo, if it is there.
  bool get(PickleId id);

  const PickleGraph& graph_;
  PickleOutput output_;
  PickleSubstitutes substitutes_{output_};
  std::unordered_map<PickleId, uint32_t> memo_;
  std::unordered_set<PickleId> begun_lists_;
  int depth_ = 0;
};

Result<std::vector<std::byte>> PickleWriter::write(PickleId root) {
  output_.opcode(PickleOpcode::kProto);
  // torch.save's default protocol, which every Python 3 and torch read.
  output_.number(uint8_t{2});
  MEG_RETURN_IF_ERROR(save(root));
  output_.opcode(PickleOpcode::kStop);
  return output_.bytes();
}

bool PickleWriter::get(PickleId id) {
  const auto found = memo_.find(id);
  if (found == memo_.end()) return false;
  output_.get(found->second);
  return true;
}

// ---- Values ----

Status PickleWriter::save(PickleId id) {
  if (get(id)) return Status();
  if (depth_ > PickleGraph::kMaxDepth) {
    return make_error(StatusCode::kCorruption,
                      "pickle: nesting: expected at most {} levels, found more",
                      PickleGraph::kMaxDepth);
  }
  // This also keeps the lengths of texts within their 32 bits.
  if (output_.size() + graph_.node(id).text.size() > kMaxPickleBytes) {
    return make_error(StatusCode::kResourceExhausted,
                      "pickle: expected at most {} bytes, found more", kMaxPickleBytes);
  }
  ++depth_;
  const Status status = save_value(id);
  --depth_;
  return status;
}

Status PickleWriter::save_value(PickleId id) {
  const PickleNode& node = graph_.node(id);
  switch (node.kind) {
    case PickleKind::kTuple:
      return save_tuple(id);
    case PickleKind::kList:
      return save_list(id);
    case PickleKind::kDict:
      return save_dict(id);
    case PickleKind::kSet:
    case PickleKind::kFrozenSet:
      return save_set(id);
    case PickleKind::kGlobal:
      return save_global(id);
    case PickleKind::kCall:
      return save_call(id);
    // It is not memoized itself, because torch asks for the persistent id of each tensor
    // separately.
    case PickleKind::kPersistent:
      MEG_RETURN_IF_ERROR(save(node.children[0]));
      output_.opcode(PickleOpcode::kBinPersId);
      return Status();
    case PickleKind::kString:
    case PickleKind::kBytes:
    case PickleKind::kByteArray:
      save_text(id);
      return Status();
    default:
      save_number(node);
      return Status();
  }
}

/// What is never remembered.
void PickleWriter::save_number(const PickleNode& node) {
  switch (node.kind) {
    case PickleKind::kBool:
      return output_.opcode(node.boolean ? PickleOpcode::kNewTrue : PickleOpcode::kNewFalse);
    case PickleKind::kInt:
      return output_.integer(node.integer);
    case PickleKind::kBigInt:
      return output_.big_integer(node.text);
    case PickleKind::kFloat:
      return output_.real(node.real);
    default:
      return output_.opcode(PickleOpcode::kNone);
  }
}

void PickleWriter::save_text(PickleId id) {
  const PickleNode& node = graph_.node(id);
  if (node.kind == PickleKind::kString) {
    output_.text(node.text);
  } else if (node.kind == PickleKind::kBytes) {
    substitutes_.bytes(node.text);
  } else {
    substitutes_.byte_array(node.text);
  }
  put(id);
}

Status PickleWriter::save_all(std::span<const PickleId> ids) {
  for (const PickleId id : ids) MEG_RETURN_IF_ERROR(save(id));
  return Status();
}

// ---- Containers ----

Status PickleWriter::save_tuple(PickleId id) {
  const size_t size = graph_.node(id).children.size();
  const std::vector<PickleId>& elements = graph_.node(id).children;
  if (size > 3) output_.opcode(PickleOpcode::kMark);
  MEG_RETURN_IF_ERROR(save_all(elements));
  // A tuple can be written only after its elements; with a cycle through it, they come to it first.
  if (const auto found = memo_.find(id); found != memo_.end()) {
    // An element holds this tuple and has written it meanwhile.
    for (size_t at = 0; size <= 3 && at < size; ++at) output_.opcode(PickleOpcode::kPop);
    if (size > 3) output_.opcode(PickleOpcode::kPopMark);
    output_.get(found->second);
    return Status();
  }
  close_tuple(id);
  return Status();
}

/// The arguments of a call. Python creates their tuple again for each attempt to write the object,
/// so one that was written meanwhile is not fetched from the memo; neither is an unfinished list if
/// the call needs it filled (a set whose members contain the set).
Status PickleWriter::save_arguments(PickleId id) {
  if (get(id)) return Status();
  const std::vector<PickleId>& elements = graph_.node(id).children;
  if (elements.size() > 3) output_.opcode(PickleOpcode::kMark);
  for (const PickleId element : elements) {
    const bool is_begun = begun_lists_.contains(element);
    if (is_begun && !graph_.node(element).boolean) memo_.erase(element);
    MEG_RETURN_IF_ERROR(save(element));
  }
  close_tuple(id);
  return Status();
}

void PickleWriter::close_tuple(PickleId id) {
  constexpr PickleOpcode kBySize[] = {PickleOpcode::kEmptyTuple, PickleOpcode::kTuple1,
                                      PickleOpcode::kTuple2, PickleOpcode::kTuple3};
  const size_t size = graph_.node(id).children.size();
  output_.opcode(size <= 3 ? kBySize[size] : PickleOpcode::kTuple);
  if (size > 0) put(id);  // Python's empty tuple is never remembered
}

Status PickleWriter::save_list(PickleId id) {
  output_.opcode(PickleOpcode::kEmptyList);
  put(id);
  const bool is_first = begun_lists_.insert(id).second;
  const Status status = save_elements(graph_.node(id).children);
  if (is_first) begun_lists_.erase(id);
  return status;
}

Status PickleWriter::save_elements(std::span<const PickleId> elements) {
  if (elements.size() == 1) return save_items(elements);
  // Unlike that of a list's subclass, a last batch of one is marked too.
  for (size_t at = 0; at < elements.size(); at += kBatch) {
    output_.opcode(PickleOpcode::kMark);
    MEG_RETURN_IF_ERROR(save_all(elements.subspan(at, std::min(kBatch, elements.size() - at))));
    output_.opcode(PickleOpcode::kAppends);
  }
  return Status();
}

Status PickleWriter::save_items(std::span<const PickleId> items) {
  for (size_t at = 0; at < items.size(); at += kBatch) {
    const auto batch = items.subspan(at, std::min(kBatch, items.size() - at));
    if (batch.size() > 1) output_.opcode(PickleOpcode::kMark);
    MEG_RETURN_IF_ERROR(save_all(batch));
    output_.opcode(batch.size() > 1 ? PickleOpcode::kAppends : PickleOpcode::kAppend);
  }
  return Status();
}

Status PickleWriter::save_dict(PickleId id) {
  const std::span<const PickleId> entries = graph_.node(id).children;
  output_.opcode(PickleOpcode::kEmptyDict);
  put(id);
  if (entries.size() <= 2) return save_pairs(entries);
  // Unlike those of a dict's subclass, batches follow each other until one is not full, if need be
  // empty.
  for (size_t at = 0; at <= entries.size(); at += 2 * kBatch) {
    output_.opcode(PickleOpcode::kMark);
    MEG_RETURN_IF_ERROR(save_all(entries.subspan(at, std::min(2 * kBatch, entries.size() - at))));
    output_.opcode(PickleOpcode::kSetItems);
  }
  return Status();
}

Status PickleWriter::save_pairs(std::span<const PickleId> pairs) {
  for (size_t at = 0; at < pairs.size(); at += 2 * kBatch) {
    const auto batch = pairs.subspan(at, std::min(2 * kBatch, pairs.size() - at));
    if (batch.size() > 2) output_.opcode(PickleOpcode::kMark);
    MEG_RETURN_IF_ERROR(save_all(batch));
    output_.opcode(batch.size() > 2 ? PickleOpcode::kSetItems : PickleOpcode::kSetItem);
  }
  return Status();
}

// ---- Names and calls ----

Status PickleWriter::save_global(PickleId id) {
  const PickleNode& node = graph_.node(id);
  if (node.text.find('\n') != std::string::npos || node.name.find('\n') != std::string::npos) {
    return make_error(StatusCode::kUnsupported,
                      "pickle: global: expected a name without line feeds, found {}",
                      text::printable(graph_.class_name(id)));
  }
  if (node.boolean) {
    substitutes_.path(node.text, node.name);
  } else {
    output_.global(node.text, node.name);
  }
  put(id);
  return Status();
}

Status PickleWriter::save_call(PickleId id) {
  const PickleCall& call = graph_.call(id);
  if (call.form == PickleCallForm::kNewObjEx) {
    return make_error(StatusCode::kUnsupported,
                      "pickle: {}: expected an object made without keywords, found NEWOBJ_EX, "
                      "which protocol 2 lacks",
                      graph_.class_name(id));
  }
  const std::vector<PickleId>& parts = graph_.node(id).children;
  MEG_RETURN_IF_ERROR(save(parts[0]));
  MEG_RETURN_IF_ERROR(save_arguments(parts[1]));
  const bool is_new = call.form == PickleCallForm::kNewObj;
  output_.opcode(is_new ? PickleOpcode::kNewObj : PickleOpcode::kReduce);
  // Where an argument holds the object, the inner call has made it and given it its state.
  if (!finish_call(id)) return Status();
  MEG_RETURN_IF_ERROR(save_items(call.items));
  MEG_RETURN_IF_ERROR(save_pairs(call.pairs));
  for (const PickleId state : call.states) {
    MEG_RETURN_IF_ERROR(save(state));
    output_.opcode(PickleOpcode::kBuild);
  }
  return Status();
}

/// Writes set([elements]); Python creates the list again for each attempt.
Status PickleWriter::save_set(PickleId id) {
  const PickleNode& node = graph_.node(id);
  substitutes_.global("__builtin__", node.kind == PickleKind::kSet ? "set" : "frozenset");
  output_.opcode(PickleOpcode::kEmptyList);
  output_.put();
  MEG_RETURN_IF_ERROR(save_elements(node.children));
  output_.opcode(PickleOpcode::kTuple1);
  output_.put();
  output_.opcode(PickleOpcode::kReduce);
  finish_call(id);
  return Status();
}

/// Remembers the object just made, or takes the one that an argument made and holds meanwhile.
/// Returns whether it is the new one.
bool PickleWriter::finish_call(PickleId id) {
  const auto found = memo_.find(id);
  if (found == memo_.end()) {
    put(id);
    return true;
  }
  output_.opcode(PickleOpcode::kPop);
  output_.get(found->second);
  return false;
}

}  // namespace

Result<std::vector<std::byte>> write_pickle(const PickleGraph& graph, PickleId root) {
  return PickleWriter(graph).write(root);
}

}  // namespace meg::checkpoint
