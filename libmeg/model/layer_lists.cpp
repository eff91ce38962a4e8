#include "libmeg/model/layer_lists.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace meg::model {
namespace {

constexpr std::string_view kWindowLayers = kLayerListFields[0];
constexpr std::string_view kLayersWithoutRope = kLayerListFields[1];
constexpr std::string_view kLayersWithExperts = kLayerListFields[2];

constexpr int64_t kMostLayers = int64_t{1} << 20;

using List = std::vector<int64_t>;

/// What Megatron evaluates as Python: numbers and lists of numbers, joined by + and *.
class Expression {
 public:
  using Value = std::variant<int64_t, List>;

  /// limit: of a list's length, so that "[1]*999999999" needs no memory.
  Expression(std::string_view text, size_t limit) : rest_(text), limit_(limit) {}

  /// The value of the whole text; nullopt if it has none.
  std::optional<Value> evaluate() {
    std::optional<Value> value = sum(0);
    return peek() == '\0' ? value : std::nullopt;
  }

 private:
  static constexpr int kMostDepth = 64;

  char peek() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }

  bool take(char sign) {
    if (peek() != sign) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<Value> sum(int depth) {
    std::optional<Value> left = product(depth);
    while (left.has_value() && take('+')) {
      std::optional<Value> right = product(depth);
      if (!right.has_value() || right->index() != left->index()) return std::nullopt;
      if (auto* number = std::get_if<int64_t>(&*left)) {
        if (__builtin_add_overflow(*number, std::get<int64_t>(*right), number)) return std::nullopt;
      } else {
        List& list = std::get<List>(*left);
        const List& added = std::get<List>(*right);
        if (list.size() + added.size() > limit_) return std::nullopt;
        list.insert(list.end(), added.begin(), added.end());
      }
    }
    return left;
  }

  std::optional<Value> product(int depth) {
    std::optional<Value> left = atom(depth);
    while (left.has_value() && take('*')) {
      std::optional<Value> right = atom(depth);
      if (!right.has_value()) return std::nullopt;
      if (std::holds_alternative<List>(*right)) std::swap(left, right);
      const int64_t* times = std::get_if<int64_t>(&*right);
      if (times == nullptr) return std::nullopt;
      if (auto* number = std::get_if<int64_t>(&*left)) {
        if (__builtin_mul_overflow(*number, *times, number)) return std::nullopt;
      } else if (!repeat(std::get<List>(*left), *times)) {
        return std::nullopt;
      }
    }
    return left;
  }

  bool repeat(List& list, int64_t times) const {
    const size_t once = list.size();
    if (times <= 0 || once == 0) {
      list.clear();
      return true;
    }
    if (static_cast<uint64_t>(times) > limit_ / once) return false;
    list.reserve(once * static_cast<size_t>(times));
    for (int64_t i = 1; i < times; ++i) {
      for (size_t k = 0; k < once; ++k) list.push_back(list[k]);
    }
    return true;
  }

  std::optional<Value> atom(int depth) {
    if (depth == kMostDepth) return std::nullopt;
    if (take('(')) {
      std::optional<Value> inner = sum(depth + 1);
      return take(')') ? inner : std::nullopt;
    }
    if (take('[')) return list(depth + 1);
    peek();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc() || number < 0) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return number;
  }

  /// The elements after a bracket.
  std::optional<Value> list(int depth) {
    List elements;
    while (!take(']')) {
      const std::optional<Value> element = sum(depth);
      const auto* number = element.has_value() ? std::get_if<int64_t>(&*element) : nullptr;
      if (number == nullptr || elements.size() == limit_) return std::nullopt;
      elements.push_back(*number);
      if (!take(',') && peek() != ']') return std::nullopt;
    }
    return elements;
  }

  std::string_view rest_;
  size_t limit_;
};

/// A number, or the numbers of a list, in any form in which args have them.
std::optional<Expression::Value> evaluated(const megatron::FieldValue& value, size_t limit) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) {
    return Expression(*text, limit).evaluate();
  }
  const auto* words = std::get_if<std::vector<std::string>>(&value);
  if (words == nullptr) return std::nullopt;
  List list;
  for (const std::string& word : *words) {
    if (word != "0" && word != "1" && word != "True" && word != "False") return std::nullopt;
    list.push_back(word == "1" || word == "True" ? 1 : 0);
  }
  return list;
}

/// What the arg says of each layer; of a number N, is_in(layer, N) with layers from 0.
Result<std::vector<bool>> read_layers(const megatron::FieldLookup& lookup, std::string_view name,
                                      int64_t num_layers, bool (*is_in)(int64_t, int64_t)) {
  const megatron::FieldValue value = lookup(name).value_or(megatron::FieldValue());
  std::vector<bool> layers;
  if (value == megatron::FieldValue()) return layers;
  if (num_layers > kMostLayers) {
    return make_error(StatusCode::kInvalidArgument,
                      "num_layers: expected at most {} with {}, found {}", kMostLayers, name,
                      num_layers);
  }
  const auto found = evaluated(value, static_cast<size_t>(num_layers));
  const auto* step = found.has_value() ? std::get_if<int64_t>(&*found) : nullptr;
  const auto* list = found.has_value() ? std::get_if<List>(&*found) : nullptr;
  if (step != nullptr && *step > 0) {
    for (int64_t i = 0; i < num_layers; ++i) layers.push_back(is_in(i, *step));
    return layers;
  }
  const bool is_binary = list != nullptr && std::ranges::all_of(*list, [](int64_t element) {
                           return element == 0 || element == 1;
                         });
  if (is_binary && std::ssize(*list) == num_layers) {
    for (const int64_t element : *list) layers.push_back(element == 1);
    return layers;
  }
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a number or a list of 0 or 1 for each of {} layers, found {}",
                    name, num_layers, megatron::field_text(value));
}

}  // namespace

Result<std::vector<bool>> window_layers(const megatron::FieldLookup& lookup, int64_t num_layers) {
  return read_layers(lookup, kWindowLayers, num_layers,
                     [](int64_t layer, int64_t n) { return (layer + 1) % n != 0; });
}

Result<std::vector<bool>> layers_without_rope(const megatron::FieldLookup& lookup,
                                              int64_t num_layers) {
  return read_layers(lookup, kLayersWithoutRope, num_layers,
                     [](int64_t layer, int64_t n) { return (layer + 1) % n == 0; });
}

Result<std::vector<bool>> layers_with_experts(const megatron::FieldLookup& lookup,
                                              int64_t num_layers) {
  // What args of models without experts say, too, whatever their number of layers.
  const megatron::FieldValue value =
      lookup(kLayersWithExperts).value_or(megatron::FieldValue(int64_t{1}));
  if (value == megatron::FieldValue(int64_t{1})) return std::vector<bool>();
  return read_layers(lookup, kLayersWithExperts, num_layers,
                     [](int64_t layer, int64_t n) { return layer % n == 0; });
}

bool is_list_field(std::string_view name) {
  return name == "window_size" || std::ranges::count(kLayerListFields, name) > 0;
}

megatron::FieldValue evaluated_layer_list(const megatron::FieldValue& value, int64_t num_layers) {
  const auto found = evaluated(value, static_cast<size_t>(num_layers));
  if (!found.has_value()) return value;
  if (const auto* number = std::get_if<int64_t>(&*found)) return *number;
  std::vector<bool> layers;
  for (const int64_t element : std::get<List>(*found)) layers.push_back(element == 1);
  return layer_list_field(layers);
}

megatron::FieldValue layer_list_field(const std::vector<bool>& layers) {
  std::vector<std::string> words;
  for (const bool layer : layers) words.emplace_back(layer ? "1" : "0");
  return words;
}

}  // namespace meg::model
