#include "libmeg/checkpoint/pickle_writer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "libmeg/checkpoint/pickle_integer.h"
#include "libmeg/checkpoint/pickle_opcode.h"
#include "libmeg/checkpoint/pickle_output.h"
#include "libmeg/core/printable.h"
#include "libmeg/core/utf8.h"

namespace meg {

namespace {

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

  void save_int(int64_t value);
  void save_big_int(std::string_view bytes);
  Status save_text(std::string_view text);
  Status save_string(PickleId id);
  Status save_tuple(PickleId id);
  Status save_arguments(PickleId id);
  void close_tuple(PickleId id);
  Status save_list(PickleId id);
  Status save_dict(PickleId id);
  Status save_global(PickleId id);
  Status save_global_path(PickleId id);
  Status save_call(PickleId id);

  // Values that protocol 2 lacks, as calls.
  Status save_bytes(PickleId id);
  Status save_bytes_call(std::string_view bytes);
  Status save_byte_array(PickleId id);
  Status save_set(PickleId id);
  Status save_named(std::string_view module, std::string_view name);

  Status save_items(std::span<const PickleId> items);
  Status save_pairs(std::span<const PickleId> pairs);

  /// The next number of the memo, for an object that nothing refers to again.
  uint32_t put_anonymous();

  void put(PickleId id) { memo_[id] = put_anonymous(); }

  /// Fetches an object from the memo, if it is there.
  bool get(PickleId id);
  void get_index(uint32_t index);

  const PickleGraph& graph_;
  PickleOutput output_;
  std::unordered_map<PickleId, uint32_t> memo_;
  std::unordered_map<std::string, uint32_t> named_;  // globals and texts that no node stands for
  std::unordered_set<PickleId> begun_lists_;
  uint32_t memo_size_ = 0;
  int depth_ = 0;
};

Result<std::vector<std::byte>> PickleWriter::write(PickleId root) {
  output_.opcode(PickleOpcode::kProto);
  output_.number(uint8_t{2});
  MEG_RETURN_IF_ERROR(save(root));
  output_.opcode(PickleOpcode::kStop);
  return output_.bytes();
}

// ---- The memo ----

uint32_t PickleWriter::put_anonymous() {
  const uint32_t index = memo_size_++;
  if (index < 256) {
    output_.opcode(PickleOpcode::kBinPut);
    output_.number(static_cast<uint8_t>(index));
  } else {
    output_.opcode(PickleOpcode::kLongBinPut);
    output_.number(index);
  }
  return index;
}

bool PickleWriter::get(PickleId id) {
  const auto found = memo_.find(id);
  if (found == memo_.end()) return false;
  get_index(found->second);
  return true;
}

void PickleWriter::get_index(uint32_t index) {
  if (index < 256) {
    output_.opcode(PickleOpcode::kBinGet);
    output_.number(static_cast<uint8_t>(index));
  } else {
    output_.opcode(PickleOpcode::kLongBinGet);
    output_.number(index);
  }
}

// ---- Values ----

Status PickleWriter::save(PickleId id) {
  if (get(id)) return Status();
  if (depth_ > PickleGraph::kMaxDepth) {
    return make_error(StatusCode::kCorruption,
                      "pickle: nesting: expected at most {} levels, found more",
                      PickleGraph::kMaxDepth);
  }
  if (output_.size() > kMaxPickleBytes) {
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
    case PickleKind::kNone:
      output_.opcode(PickleOpcode::kNone);
      return Status();
    case PickleKind::kBool:
      output_.opcode(node.boolean ? PickleOpcode::kNewTrue : PickleOpcode::kNewFalse);
      return Status();
    case PickleKind::kInt:
      save_int(node.integer);
      return Status();
    case PickleKind::kBigInt:
      save_big_int(node.text);
      return Status();
    case PickleKind::kFloat:
      output_.opcode(PickleOpcode::kBinFloat);
      output_.number(__builtin_bswap64(std::bit_cast<uint64_t>(node.real)));
      return Status();
    case PickleKind::kString:
      return save_string(id);
    case PickleKind::kBytes:
      return save_bytes(id);
    case PickleKind::kByteArray:
      return save_byte_array(id);
    case PickleKind::kTuple:
      return save_tuple(id);
    case PickleKind::kList: {
      const bool is_first = begun_lists_.insert(id).second;
      const Status status = save_list(id);
      if (is_first) begun_lists_.erase(id);
      return status;
    }
    case PickleKind::kDict:
      return save_dict(id);
    case PickleKind::kSet:
    case PickleKind::kFrozenSet:
      return save_set(id);
    case PickleKind::kGlobal:
      return save_global(id);
    case PickleKind::kCall:
      return save_call(id);
    case PickleKind::kPersistent:
      MEG_RETURN_IF_ERROR(save(node.children[0]));
      output_.opcode(PickleOpcode::kBinPersId);
      return Status();
  }
  return make_error(StatusCode::kInternal, "pickle: node {}: expected a known kind, found {}", id,
                    static_cast<int>(node.kind));
}

Status PickleWriter::save_all(std::span<const PickleId> ids) {
  for (const PickleId id : ids) MEG_RETURN_IF_ERROR(save(id));
  return Status();
}

void PickleWriter::save_int(int64_t value) {
  if (value != static_cast<int32_t>(value)) {
    save_big_int(twos_complement(value));
  } else if (value >= 0 && value < 0x100) {
    output_.opcode(PickleOpcode::kBinInt1);
    output_.number(static_cast<uint8_t>(value));
  } else if (value >= 0 && value < 0x10000) {
    output_.opcode(PickleOpcode::kBinInt2);
    output_.number(static_cast<uint16_t>(value));
  } else {
    output_.opcode(PickleOpcode::kBinInt);
    output_.number(static_cast<int32_t>(value));
  }
}

void PickleWriter::save_big_int(std::string_view bytes) {
  if (bytes.size() < 256) {
    output_.opcode(PickleOpcode::kLong1);
    output_.number(static_cast<uint8_t>(bytes.size()));
  } else {
    output_.opcode(PickleOpcode::kLong4);
    output_.number(static_cast<uint32_t>(bytes.size()));
  }
  output_.text(bytes);
}

Status PickleWriter::save_text(std::string_view text) {
  if (text.size() > kMaxPickleBytes) {
    return make_error(StatusCode::kResourceExhausted,
                      "pickle: text: expected at most {} bytes, found {}", kMaxPickleBytes,
                      text.size());
  }
  output_.opcode(PickleOpcode::kBinUnicode);
  output_.number(static_cast<uint32_t>(text.size()));
  output_.text(text);
  return Status();
}

Status PickleWriter::save_string(PickleId id) {
  MEG_RETURN_IF_ERROR(save_text(graph_.node(id).text));
  put(id);
  return Status();
}

// ---- Containers ----

Status PickleWriter::save_tuple(PickleId id) {
  const size_t size = graph_.node(id).children.size();
  const std::vector<PickleId>& elements = graph_.node(id).children;
  if (size > 3) output_.opcode(PickleOpcode::kMark);
  MEG_RETURN_IF_ERROR(save_all(elements));
  if (const auto found = memo_.find(id); found != memo_.end()) {
    // An element holds this tuple and has written it meanwhile.
    for (size_t at = 0; size <= 3 && at < size; ++at) output_.opcode(PickleOpcode::kPop);
    if (size > 3) output_.opcode(PickleOpcode::kPopMark);
    get_index(found->second);
    return Status();
  }
  close_tuple(id);
  return Status();
}

/// The arguments of a call. Python makes their tuple anew for each attempt to write the object, so
/// one that was written meanwhile is not fetched; nor is a list that has been begun only, where the
/// call needs it filled (a set whose members hold the set).
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
  const std::span<const PickleId> elements = graph_.node(id).children;
  output_.opcode(PickleOpcode::kEmptyList);
  put(id);
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
  // Unlike those of a dict's subclass, batches go on until one is not full, if need be empty.
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
  if (node.boolean) return save_global_path(id);
  if (node.text.find('\n') != std::string::npos || node.name.find('\n') != std::string::npos) {
    return make_error(StatusCode::kUnsupported,
                      "pickle: global: expected a name without line feeds, found {}",
                      printable(node.text + "." + node.name));
  }
  output_.opcode(PickleOpcode::kGlobal);
  output_.text(node.text);
  output_.text("\n");
  output_.text(node.name);
  output_.text("\n");
  put(id);
  return Status();
}

/// Outer.Inner as getattr(Outer, "Inner"), which is how protocol 2 says it.
Status PickleWriter::save_global_path(PickleId id) {
  const PickleNode& node = graph_.node(id);
  std::string_view rest = node.name;
  const auto parts = static_cast<size_t>(std::count(rest.begin(), rest.end(), '.'));
  for (size_t at = 0; at < parts; ++at) {
    MEG_RETURN_IF_ERROR(save_named("__builtin__", "getattr"));
  }
  MEG_RETURN_IF_ERROR(save_named(node.text, rest.substr(0, rest.find('.'))));
  for (size_t at = 0; at < parts; ++at) {
    rest.remove_prefix(rest.find('.') + 1);
    MEG_RETURN_IF_ERROR(save_text(rest.substr(0, rest.find('.'))));
    put_anonymous();
    output_.opcode(PickleOpcode::kTuple2);
    put_anonymous();
    output_.opcode(PickleOpcode::kReduce);
    if (at + 1 < parts) put_anonymous();
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
  if (const auto found = memo_.find(id); found != memo_.end()) {
    output_.opcode(PickleOpcode::kPop);  // an argument holds this object and has written it
    get_index(found->second);
    return Status();
  }
  put(id);
  MEG_RETURN_IF_ERROR(save_items(call.items));
  MEG_RETURN_IF_ERROR(save_pairs(call.pairs));
  for (const PickleId state : call.states) {
    MEG_RETURN_IF_ERROR(save(state));
    output_.opcode(PickleOpcode::kBuild);
  }
  return Status();
}

// ---- What protocol 2 lacks ----

Status PickleWriter::save_named(std::string_view module, std::string_view name) {
  std::string key = std::string(module) + "\n" + std::string(name);
  if (const auto found = named_.find(key); found != named_.end()) {
    get_index(found->second);
    return Status();
  }
  output_.opcode(PickleOpcode::kGlobal);
  output_.text(key);
  output_.text("\n");
  named_[std::move(key)] = put_anonymous();
  return Status();
}

Status PickleWriter::save_bytes(PickleId id) {
  MEG_RETURN_IF_ERROR(save_bytes_call(graph_.node(id).text));
  put(id);
  return Status();
}

/// _codecs.encode(text, "latin1"), where the code points of text are the bytes.
Status PickleWriter::save_bytes_call(std::string_view bytes) {
  if (bytes.empty()) {
    MEG_RETURN_IF_ERROR(save_named("__builtin__", "bytes"));
    output_.opcode(PickleOpcode::kEmptyTuple);
    output_.opcode(PickleOpcode::kReduce);
    return Status();
  }
  MEG_RETURN_IF_ERROR(save_named("_codecs", "encode"));
  std::string text;
  for (const char byte : bytes) append_code_point(static_cast<unsigned char>(byte), text);
  MEG_RETURN_IF_ERROR(save_text(text));
  put_anonymous();
  if (const auto found = named_.find("latin1"); found != named_.end()) {
    get_index(found->second);
  } else {
    MEG_RETURN_IF_ERROR(save_text("latin1"));
    named_["latin1"] = put_anonymous();
  }
  output_.opcode(PickleOpcode::kTuple2);
  put_anonymous();
  output_.opcode(PickleOpcode::kReduce);
  return Status();
}

Status PickleWriter::save_byte_array(PickleId id) {
  const std::string& bytes = graph_.node(id).text;
  MEG_RETURN_IF_ERROR(save_named("__builtin__", "bytearray"));
  if (bytes.empty()) {
    output_.opcode(PickleOpcode::kEmptyTuple);
  } else {
    MEG_RETURN_IF_ERROR(save_bytes_call(bytes));
    put_anonymous();
    output_.opcode(PickleOpcode::kTuple1);
    put_anonymous();
  }
  output_.opcode(PickleOpcode::kReduce);
  put(id);
  return Status();
}

/// set([elements]); the list is not worth entering twice for elements that hold the set itself.
Status PickleWriter::save_set(PickleId id) {
  const PickleNode& node = graph_.node(id);
  MEG_RETURN_IF_ERROR(
      save_named("__builtin__", node.kind == PickleKind::kSet ? "set" : "frozenset"));
  output_.opcode(PickleOpcode::kEmptyList);
  put_anonymous();
  const std::span<const PickleId> elements = node.children;
  for (size_t at = 0; at < elements.size(); at += kBatch) {
    const auto batch = elements.subspan(at, std::min(kBatch, elements.size() - at));
    const bool is_marked = elements.size() > 1;
    if (is_marked) output_.opcode(PickleOpcode::kMark);
    MEG_RETURN_IF_ERROR(save_all(batch));
    output_.opcode(is_marked ? PickleOpcode::kAppends : PickleOpcode::kAppend);
  }
  output_.opcode(PickleOpcode::kTuple1);
  put_anonymous();
  output_.opcode(PickleOpcode::kReduce);
  if (const auto found = memo_.find(id); found != memo_.end()) {
    output_.opcode(PickleOpcode::kPop);
    get_index(found->second);
    return Status();
  }
  put(id);
  return Status();
}

}  // namespace

Result<std::vector<std::byte>> write_pickle(const PickleGraph& graph, PickleId root) {
  return PickleWriter(graph).write(root);
}

}  // namespace meg
