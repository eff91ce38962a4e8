#include "libmeg/checkpoint/inspect/internal/numpy_array.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace meg::checkpoint {
namespace {

/// numpy's own limit.
constexpr size_t kMaxDimensions = 64;

/// numpy's letter and size of a plain type, and its name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kPlainTypes = {{
    {"b1", "bool"},
    {"i1", "int8"},
    {"i2", "int16"},
    {"i4", "int32"},
    {"i8", "int64"},
    {"u1", "uint8"},
    {"u2", "uint16"},
    {"u4", "uint32"},
    {"u8", "uint64"},
    {"f2", "float16"},
    {"f4", "float32"},
    {"f8", "float64"},
    {"c8", "complex64"},
    {"c16", "complex128"},
    {"O8", "object"},
}};

struct ElementType {
  std::string name;
  int64_t bytes = 0;
};

int64_t digits_of(std::string_view code) {
  int64_t number = 0;
  std::from_chars(code.data() + 1, code.data() + code.size(), number);
  return number;
}

/// A call of numpy.dtype(code, ...), its code perhaps with a byte order in front, or with its state
/// (version, byte order, ..., bytes, alignment, ...).
std::optional<ElementType> element_type(const PickleGraph& graph, PickleId id) {
  if (graph.node(id).kind != PickleKind::kCall || graph.class_name(id) != "numpy.dtype") {
    return std::nullopt;
  }
  const std::vector<PickleId>& arguments = graph.node(graph.node(id).children[1]).children;
  if (arguments.empty()) return std::nullopt;
  std::optional<std::string_view> code = graph.as_string(arguments[0]);
  if (!code.has_value() || code->empty()) return std::nullopt;
  std::string order;
  if (std::string_view("<>=|").find(code->front()) != std::string_view::npos) {
    order = code->front();
    code->remove_prefix(1);
    if (code->empty()) return std::nullopt;
  }
  int64_t bytes = -1;  // plain types leave it to their code
  if (!graph.call(id).states.empty()) {
    const std::vector<PickleId>& fields = graph.node(graph.call(id).states[0]).children;
    if (fields.size() > 1) order = graph.as_string(fields[1]).value_or("");
    if (fields.size() > 5) bytes = graph.as_int(fields[5]).value_or(-1);
  }
  if (bytes < 0) bytes = digits_of(*code);
  for (const auto& [plain, name] : kPlainTypes) {
    if (*code == plain) return ElementType{std::string(name), bytes};
  }
  return ElementType{(order == "|" ? "" : order) + std::string(*code), bytes};
}

std::optional<std::vector<int64_t>> shape_of(const PickleGraph& graph, PickleId id) {
  std::vector<int64_t> shape;
  if (graph.node(id).children.size() > kMaxDimensions) return std::nullopt;
  for (const PickleId child : graph.node(id).children) {
    const std::optional<int64_t> size = graph.as_int(child);
    if (!size.has_value() || *size < 0) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

bool is_reconstruct(std::string_view name) {
  return name == "numpy.core.multiarray._reconstruct" ||
         name == "numpy._core.multiarray._reconstruct";
}

/// The nodes of an array's shape and type.
std::optional<std::pair<PickleId, PickleId>> parts_of(const PickleGraph& graph, PickleId id) {
  if (graph.node(id).kind != PickleKind::kCall) return std::nullopt;
  const std::string maker = graph.class_name(id);
  if (maker == "numpy.ndarray") {
    const std::vector<PickleId>& arguments = graph.node(graph.node(id).children[1]).children;
    if (arguments.size() != 3) return std::nullopt;
    return std::pair(arguments[0], arguments[1]);
  }
  // numpy pickles an array as an empty one that is given its state (version, shape, type, order,
  // bytes).
  if (!is_reconstruct(maker) || graph.call(id).states.size() != 1) return std::nullopt;
  const std::vector<PickleId>& state = graph.node(graph.call(id).states[0]).children;
  if (state.size() != 5) return std::nullopt;
  return std::pair(state[1], state[2]);
}

}  // namespace

std::optional<NumpyArray> numpy_array(const PickleGraph& graph, PickleId id) {
  const auto parts = parts_of(graph, id);
  if (!parts.has_value()) return std::nullopt;
  std::optional<std::vector<int64_t>> shape = shape_of(graph, parts->first);
  const std::optional<ElementType> type = element_type(graph, parts->second);
  if (!shape.has_value() || !type.has_value()) return std::nullopt;
  NumpyArray array{type->name, *std::move(shape), 1, 0};
  for (const int64_t size : array.shape) {
    // Shapes are claims; what cannot be counted is shown as an object like any other.
    if (__builtin_mul_overflow(array.elements, size, &array.elements)) return std::nullopt;
  }
  if (__builtin_mul_overflow(array.elements, type->bytes, &array.bytes)) return std::nullopt;
  return array;
}

}  // namespace meg::checkpoint
