#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// A node of a PickleGraph: an index, valid for the graph that gave it.
using PickleId = uint32_t;

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,     ///< Fits 64 bits, signed.
  kBigInt,  ///< Any other: text is the shortest two's complement, little-endian bytes.
  kFloat,
  kString,     ///< text: UTF-8 (surrogates may be encoded as Python's "surrogatepass" does).
  kBytes,      ///< text
  kByteArray,  ///< text
  kTuple,      ///< children: elements.
  kList,       ///< children: elements; boolean where a call took it before it was filled.
  kDict,       ///< children: key, value, key, value ... in insertion order.
  kSet,        ///< children: elements.
  kFrozenSet,  ///< children: elements.
  kGlobal,     ///< A class or function by name, never looked up: text is the module, name its name;
               ///< boolean where the name is a path through attributes (Outer.Inner, protocol 4).
  kCall,       ///< The value that Python would make by calling a global; see PickleCall.
  kPersistent,  ///< children: one node, the persistent id (torch: a tuple that names a storage).
};

/// "a dict", "an int" ..., for messages.
std::string_view pickle_kind_name(PickleKind kind);

/// How a kCall node is written: the opcode that made it.
enum class PickleCallForm : uint8_t {
  kReduce,    ///< callee(*arguments)
  kNewObj,    ///< callee.__new__(callee, *arguments)
  kNewObjEx,  ///< callee.__new__(callee, *arguments, **keywords)
};

/// The result of a call in a pickle, kept opaque: it is never called. The children of a kCall node
/// are callee, arguments (a tuple), and for kNewObjEx keywords (a dict); this struct holds what the
/// pickle did to the result afterwards.
struct PickleCall {
  PickleCallForm form = PickleCallForm::kReduce;
  std::vector<PickleId> items;   ///< Appended (list subclasses, deque).
  std::vector<PickleId> pairs;   ///< key, value, key, value ... set (OrderedDict and the like).
  std::vector<PickleId> states;  ///< Given to BUILD, in order (attributes; mostly none or one).
};

struct PickleNode {
  PickleKind kind = PickleKind::kNone;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::string name;
  std::vector<PickleId> children;
  uint32_t call = 0;  ///< Index of this kCall node's PickleCall.
};

/// The values of a pickle: nodes that refer to each other by index, so shared parts are stored once
/// and cycles do no harm. Nothing in it was executed or imported. Nodes are never removed.
///
/// Code that walks the graph must expect sharing and cycles in untrusted files, and bound its depth
/// (kMaxDepth) and the number of visited nodes.
class PickleGraph {
 public:
  /// Maximum nesting of containers and objects: reader, writer and walkers refuse more.
  static constexpr int kMaxDepth = 1000;

  size_t size() const { return nodes_.size(); }

  /// id: below size().
  const PickleNode& node(PickleId id) const { return nodes_[id]; }

  PickleNode& mutable_node(PickleId id) { return nodes_[id]; }

  const PickleCall& call(PickleId id) const { return calls_[nodes_[id].call]; }

  PickleCall& mutable_call(PickleId id) { return calls_[nodes_[id].call]; }

  PickleId add_none();
  PickleId add_bool(bool value);
  PickleId add_int(int64_t value);
  PickleId add_float(double value);
  PickleId add_string(std::string value);
  PickleId add_bytes(std::string value);
  PickleId add_tuple(std::vector<PickleId> elements);
  PickleId add_list(std::vector<PickleId> elements = {});
  PickleId add_dict(std::vector<PickleId> keys_and_values = {});
  PickleId add_global(std::string module, std::string name);
  PickleId add_call(PickleCallForm form, PickleId callee, PickleId arguments);
  PickleId add_persistent(PickleId persistent_id);

  /// Adds a node of a kind that has no function of its own.
  PickleId add(PickleNode node);

  // ---- Looking into nodes; none of these fail on unexpected nodes ----

  bool is_global(PickleId id, std::string_view module, std::string_view name) const;

  /// "module.name" of a kGlobal, or of the callee of a kCall; empty otherwise.
  std::string class_name(PickleId id) const;

  /// Key, value, ... of a kDict, or of a kCall that had pairs set (OrderedDict); empty otherwise.
  std::span<const PickleId> pairs(PickleId id) const;

  /// The value under a string key of a dict-like node; under a repeated key the last, as in Python.
  std::optional<PickleId> find(PickleId dict, std::string_view key) const;

  /// The attribute of an object whose state is a dict (argparse.Namespace): find in its BUILD
  /// state.
  std::optional<PickleId> attribute(PickleId object, std::string_view name) const;

  /// The dict of attributes of such an object.
  std::optional<PickleId> attributes(PickleId object) const;

  std::optional<int64_t> as_int(PickleId id) const;    ///< kInt only.
  std::optional<double> as_number(PickleId id) const;  ///< kInt or kFloat.
  std::optional<bool> as_bool(PickleId id) const;      ///< kBool only.
  std::optional<std::string_view> as_string(PickleId id) const;

  /// kBytes, and the calls of `_codecs.encode(text, "latin1")` and `bytes()` that stand for bytes
  /// in protocols 0 to 2.
  std::optional<std::string> as_bytes(PickleId id) const;

  /// One line for messages: None, True, 5, 'text', [1, 2], {'a': 1}, torch.float16,
  /// ModelType(1), <storage>, [...] inside itself; cut to about `limit` bytes with "...". All
  /// ASCII.
  std::string describe(PickleId id, size_t limit = 200) const;

 private:
  std::vector<PickleNode> nodes_;
  std::vector<PickleCall> calls_;
};

/// Copies nodes of one graph into another, keeping what is shared shared across calls.
class PickleCopier {
 public:
  /// Both graphs must outlive the copier.
  PickleCopier(const PickleGraph& from, PickleGraph& to) : from_(from), to_(to) {}

  /// Copies everything reachable from id, cycles included. kResourceExhausted past kMaxPickleNodes.
  Result<PickleId> copy(PickleId id);

  /// Makes later calls of copy() use `replacement` for `id` of the source.
  void replace(PickleId id, PickleId replacement) { copied_[id] = replacement; }

 private:
  const PickleGraph& from_;
  PickleGraph& to_;
  std::unordered_map<PickleId, PickleId> copied_;
};

}  // namespace meg::checkpoint
