#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

#include <utility>

#include "libmeg/text/utf8.h"

// Values refer to each other by index: cycles need no owner, and what a file shares stays shared.
// Nodes are only ever added, so an index stays valid as long as its graph.

namespace meg::checkpoint {

namespace {

PickleNode node_of(PickleKind kind) {
  PickleNode node;
  node.kind = kind;
  return node;
}

PickleNode text_of(PickleKind kind, std::string text) {
  PickleNode node = node_of(kind);
  node.text = std::move(text);
  return node;
}

PickleNode container_of(PickleKind kind, std::vector<PickleId> children) {
  PickleNode node = node_of(kind);
  node.children = std::move(children);
  return node;
}

/// The Latin-1 bytes of UTF-8 text, where it has no other code points.
std::optional<std::string> encode_latin1(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const text::DecodedCodePoint decoded = text::decode_code_point(text);
    if (decoded.code_point > 0xFF) return std::nullopt;
    bytes.push_back(static_cast<char>(decoded.code_point));
    text.remove_prefix(decoded.size);
  }
  return bytes;
}

}  // namespace

PickleId PickleGraph::add(PickleNode node) {
  nodes_.push_back(std::move(node));
  return static_cast<PickleId>(nodes_.size() - 1);
}

PickleId PickleGraph::add_none() { return add(node_of(PickleKind::kNone)); }

PickleId PickleGraph::add_bool(bool value) {
  PickleNode node = node_of(PickleKind::kBool);
  node.boolean = value;
  return add(std::move(node));
}

PickleId PickleGraph::add_int(int64_t value) {
  PickleNode node = node_of(PickleKind::kInt);
  node.integer = value;
  return add(std::move(node));
}

PickleId PickleGraph::add_float(double value) {
  PickleNode node = node_of(PickleKind::kFloat);
  node.real = value;
  return add(std::move(node));
}

PickleId PickleGraph::add_string(std::string value) {
  return add(text_of(PickleKind::kString, std::move(value)));
}

PickleId PickleGraph::add_bytes(std::string value) {
  return add(text_of(PickleKind::kBytes, std::move(value)));
}

PickleId PickleGraph::add_tuple(std::vector<PickleId> elements) {
  return add(container_of(PickleKind::kTuple, std::move(elements)));
}

PickleId PickleGraph::add_list(std::vector<PickleId> elements) {
  return add(container_of(PickleKind::kList, std::move(elements)));
}

PickleId PickleGraph::add_dict(std::vector<PickleId> keys_and_values) {
  return add(container_of(PickleKind::kDict, std::move(keys_and_values)));
}

PickleId PickleGraph::add_global(std::string module, std::string name) {
  PickleNode node = text_of(PickleKind::kGlobal, std::move(module));
  node.name = std::move(name);
  return add(std::move(node));
}

PickleId PickleGraph::add_call(PickleCallForm form, PickleId callee, PickleId arguments) {
  PickleNode node = container_of(PickleKind::kCall, {callee, arguments});
  node.call = static_cast<uint32_t>(calls_.size());
  calls_.emplace_back().form = form;
  return add(std::move(node));
}

PickleId PickleGraph::add_persistent(PickleId persistent_id) {
  return add(container_of(PickleKind::kPersistent, {persistent_id}));
}

bool PickleGraph::is_global(PickleId id, std::string_view module, std::string_view name) const {
  const PickleNode& node = nodes_[id];
  return node.kind == PickleKind::kGlobal && node.text == module && node.name == name;
}

std::string PickleGraph::class_name(PickleId id) const {
  const PickleNode* node = &nodes_[id];
  if (node->kind == PickleKind::kCall) node = &nodes_[node->children[0]];
  if (node->kind != PickleKind::kGlobal) return "";
  return node->text + "." + node->name;
}

std::span<const PickleId> PickleGraph::pairs(PickleId id) const {
  const PickleNode& node = nodes_[id];
  if (node.kind == PickleKind::kDict) return node.children;
  if (node.kind == PickleKind::kCall) return calls_[node.call].pairs;
  return {};
}

std::optional<PickleId> PickleGraph::find(PickleId dict, std::string_view key) const {
  const std::span<const PickleId> entries = pairs(dict);
  for (size_t at = entries.size(); at >= 2; at -= 2) {  // the last of two equal keys counts
    const PickleNode& candidate = nodes_[entries[at - 2]];
    if (candidate.kind == PickleKind::kString && candidate.text == key) return entries[at - 1];
  }
  return std::nullopt;
}

std::optional<PickleId> PickleGraph::attributes(PickleId object) const {
  if (nodes_[object].kind != PickleKind::kCall) return std::nullopt;
  const std::vector<PickleId>& states = calls_[nodes_[object].call].states;
  if (states.empty()) return std::nullopt;
  const PickleNode& state = nodes_[states.back()];
  if (state.kind == PickleKind::kDict) return states.back();
  // (dict, values of __slots__)
  if (state.kind == PickleKind::kTuple && state.children.size() == 2 &&
      nodes_[state.children[0]].kind == PickleKind::kDict) {
    return state.children[0];
  }
  return std::nullopt;
}

std::optional<PickleId> PickleGraph::attribute(PickleId object, std::string_view name) const {
  const std::optional<PickleId> dict = attributes(object);
  return dict ? find(*dict, name) : std::nullopt;
}

std::optional<int64_t> PickleGraph::as_int(PickleId id) const {
  if (nodes_[id].kind != PickleKind::kInt) return std::nullopt;
  return nodes_[id].integer;
}

std::optional<double> PickleGraph::as_number(PickleId id) const {
  if (nodes_[id].kind == PickleKind::kInt) return static_cast<double>(nodes_[id].integer);
  if (nodes_[id].kind == PickleKind::kFloat) return nodes_[id].real;
  return std::nullopt;
}

std::optional<bool> PickleGraph::as_bool(PickleId id) const {
  if (nodes_[id].kind != PickleKind::kBool) return std::nullopt;
  return nodes_[id].boolean;
}

std::optional<std::string_view> PickleGraph::as_string(PickleId id) const {
  if (nodes_[id].kind != PickleKind::kString) return std::nullopt;
  return nodes_[id].text;
}

/// Protocols 0 to 2 have no opcode for bytes, so Python 3 writes a call that makes them. It is
/// recognized by name and redone here; nothing is called.
std::optional<std::string> PickleGraph::as_bytes(PickleId id) const {
  const PickleNode& node = nodes_[id];
  if (node.kind == PickleKind::kBytes) return node.text;
  if (node.kind != PickleKind::kCall || !calls_[node.call].states.empty()) return std::nullopt;
  const PickleId callee = node.children[0];
  const std::vector<PickleId>& arguments = nodes_[node.children[1]].children;
  if (arguments.empty() &&
      (is_global(callee, "__builtin__", "bytes") || is_global(callee, "builtins", "bytes"))) {
    return "";
  }
  if (arguments.size() != 2 || !is_global(callee, "_codecs", "encode")) return std::nullopt;
  const auto encoding = as_string(arguments[1]);
  const auto text = as_string(arguments[0]);
  if (!text || (encoding != "latin1" && encoding != "latin-1")) return std::nullopt;
  return encode_latin1(*text);
}

}  // namespace meg::checkpoint
