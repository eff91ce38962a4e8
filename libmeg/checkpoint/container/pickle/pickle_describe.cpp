#include <fmt/core.h>

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "libmeg/checkpoint/container/pickle/internal/pickle_integer.h"
#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/pickle/pickle_text.h"
#include "libmeg/text/utf8.h"

namespace meg::checkpoint {

namespace {

/// Integers of more bytes are not written out, because converting bits to digits takes quadratic
/// time.
constexpr size_t kMaxDecimalBytes = 128;

/// Writes a value as Python's repr would, until there is enough of it. Each value gives at least a
/// byte, so shared parts and cycles end as well.
class PickleDescriber {
 public:
  PickleDescriber(const PickleGraph& graph, size_t limit) : graph_(graph), limit_(limit) {}

  std::string describe(PickleId id) {
    value(id);
    if (text_.size() > limit_) {
      text_.resize(limit_);
      text_ += "...";
    }
    return std::move(text_);
  }

 private:
  bool is_full() const { return text_.size() > limit_; }

  void value(PickleId id);
  void content(PickleId id);
  void call(PickleId id);
  void elements(std::string_view open, std::span<const PickleId> ids, std::string_view close);
  void pairs(std::string_view between, std::span<const PickleId> ids);
  void quoted(std::string_view bytes, bool is_text);
  void number(double value);

  const PickleGraph& graph_;
  const size_t limit_;
  std::string text_;
  std::unordered_set<PickleId> open_;  // from the root to the current value
};

void PickleDescriber::value(PickleId id) {
  if (is_full()) return;
  const PickleKind kind = graph_.node(id).kind;
  const bool is_inside_itself = !open_.insert(id).second;
  // Write as Python's repr does a list inside itself; shared values without a cycle are written
  // each time, until the limit.
  if (is_inside_itself || open_.size() > PickleGraph::kMaxDepth) {
    text_ += kind == PickleKind::kList ? "[...]" : kind == PickleKind::kDict ? "{...}" : "(...)";
  } else {
    content(id);
  }
  if (!is_inside_itself) open_.erase(id);
}

void PickleDescriber::content(PickleId id) {
  const PickleNode& node = graph_.node(id);
  switch (node.kind) {
    case PickleKind::kNone:
      text_ += "None";
      break;
    case PickleKind::kBool:
      text_ += node.boolean ? "True" : "False";
      break;
    case PickleKind::kInt:
      text_ += fmt::format("{}", node.integer);
      break;
    case PickleKind::kBigInt:
      text_ += node.text.size() <= kMaxDecimalBytes
                   ? decimal_of_twos_complement(node.text)
                   : fmt::format("<int of {} bytes>", node.text.size());
      break;
    case PickleKind::kFloat:
      number(node.real);
      break;
    case PickleKind::kString:
      quoted(node.text, true);
      break;
    case PickleKind::kBytes:
      text_ += "b";
      quoted(node.text, false);
      break;
    case PickleKind::kByteArray:
      text_ += "bytearray(b";
      quoted(node.text, false);
      text_ += ")";
      break;
    case PickleKind::kTuple:
      elements("(", node.children, node.children.size() == 1 ? ",)" : ")");
      break;
    case PickleKind::kList:
      elements("[", node.children, "]");
      break;
    case PickleKind::kSet:
      elements(node.children.empty() ? "set(" : "{", node.children,
               node.children.empty() ? ")" : "}");
      break;
    case PickleKind::kFrozenSet:
      elements("frozenset({", node.children, "})");
      break;
    case PickleKind::kDict:
      text_ += "{";
      pairs(": ", node.children);
      text_ += "}";
      break;
    case PickleKind::kGlobal:
      text_ += graph_.class_name(id);
      break;
    case PickleKind::kCall:
      call(id);
      break;
    case PickleKind::kPersistent:
      text_ += "<storage>";
      break;
  }
}

/// Class(arguments, items, pairs, attribute=value).
void PickleDescriber::call(PickleId id) {
  if (const auto bytes = graph_.as_bytes(id)) {
    text_ += "b";
    return quoted(*bytes, false);
  }
  const PickleNode& node = graph_.node(id);
  const PickleNode& callee = graph_.node(node.children[0]);
  if (callee.kind == PickleKind::kGlobal) {
    text_ += callee.name.substr(callee.name.rfind('.') + 1);
  } else {
    value(node.children[0]);
  }
  // A call's second child is always the tuple of its arguments; whatever reads calls here relies on
  // PickleMachine::call().
  const std::span<const PickleId> arguments = graph_.node(node.children[1]).children;
  text_ += "(";
  std::string_view separator;
  const auto separate = [&] {
    text_ += separator;
    separator = ", ";
  };
  for (const PickleId argument : arguments) {
    if (is_full()) return;
    separate();
    value(argument);
  }
  const PickleCall& made = graph_.call(id);
  if (!made.items.empty()) {
    separate();
    elements("[", made.items, "]");
  }
  if (!made.pairs.empty()) {
    separate();
    text_ += "{";
    pairs(": ", made.pairs);
    text_ += "}";
  }
  for (const PickleId state : made.states) {
    if (is_full()) return;
    separate();
    value(state);
  }
  text_ += ")";
}

void PickleDescriber::elements(std::string_view open, std::span<const PickleId> ids,
                               std::string_view close) {
  text_ += open;
  for (size_t at = 0; at < ids.size() && !is_full(); ++at) {
    if (at > 0) text_ += ", ";
    value(ids[at]);
  }
  text_ += close;
}

void PickleDescriber::pairs(std::string_view between, std::span<const PickleId> ids) {
  for (size_t at = 0; at + 1 < ids.size() && !is_full(); at += 2) {
    if (at > 0) text_ += ", ";
    value(ids[at]);
    text_ += between;
    value(ids[at + 1]);
  }
}

/// Like Python's ascii(), so that no control sequence reaches a terminal.
void PickleDescriber::quoted(std::string_view bytes, bool is_text) {
  text_ += "'";
  while (!bytes.empty() && !is_full()) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    text::DecodedCodePoint decoded{byte, 1};
    // What is no UTF-8 is shown byte by byte, as \xNN.
    if (is_text) decoded = decode_python_code_point(bytes);
    if (decoded.code_point == text::kInvalidCodePoint) decoded = {byte, 1};
    const auto code_point = static_cast<uint32_t>(decoded.code_point);
    if (code_point == '\'' || code_point == '\\') {
      text_ += '\\';
      text_ += static_cast<char>(code_point);
    } else if (code_point == '\n') {
      text_ += "\\n";
    } else if (code_point == '\r') {
      text_ += "\\r";
    } else if (code_point == '\t') {
      text_ += "\\t";
    } else if (code_point >= 0x20 && code_point < 0x7F) {
      text_ += static_cast<char>(code_point);
    } else if (code_point < 0x100) {
      text_ += fmt::format("\\x{:02x}", code_point);
    } else {
      text_ += code_point < 0x10000 ? fmt::format("\\u{:04x}", code_point)
                                    : fmt::format("\\U{:08x}", code_point);
    }
    bytes.remove_prefix(decoded.size);
  }
  text_ += "'";
}

void PickleDescriber::number(double value) {
  std::string digits = fmt::format("{}", value);
  const bool is_whole = digits.find_first_not_of("-0123456789") == std::string::npos;
  text_ += is_whole ? digits + ".0" : digits;
}

}  // namespace

std::string_view pickle_kind_name(PickleKind kind) {
  switch (kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return "a bool";
    case PickleKind::kInt:
    case PickleKind::kBigInt:
      return "an int";
    case PickleKind::kFloat:
      return "a float";
    case PickleKind::kString:
      return "a str";
    case PickleKind::kBytes:
      return "bytes";
    case PickleKind::kByteArray:
      return "a bytearray";
    case PickleKind::kTuple:
      return "a tuple";
    case PickleKind::kList:
      return "a list";
    case PickleKind::kDict:
      return "a dict";
    case PickleKind::kSet:
      return "a set";
    case PickleKind::kFrozenSet:
      return "a frozenset";
    case PickleKind::kGlobal:
      return "a global";
    case PickleKind::kCall:
      return "an object";
    case PickleKind::kPersistent:
      return "a persistent object";
  }
  return "an unknown value";
}

std::string PickleGraph::describe(PickleId id, size_t limit) const {
  return PickleDescriber(*this, limit).describe(id);
}

}  // namespace meg::checkpoint
