#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"

#include <charconv>
#include <utility>

#include "libmeg/model/layer_lists.h"

namespace meg::checkpoint {
namespace {

/// Lists inside each other in args of strangers.
constexpr int kMaxNesting = 8;

/// Allowed for files of any size.
constexpr uint64_t kLeastBudget = uint64_t{1} << 20;

/// What values may take in memory for each byte of their file: a pickle says a value in two or
/// three bytes.
constexpr uint64_t kBudgetOfByte = 32;

/// Takes values out of a graph, all of them within a budget: many args may share one long text, and
/// lists one list.
class ArgReader {
 public:
  ArgReader(const PickleGraph& graph, uint64_t budget) : graph_(graph), left_(budget) {}

  /// nullopt for what ArgValue does not hold, and where the budget is spent.
  std::optional<ArgValue> value_of(PickleId id, int depth = 0);

  bool is_spent() const { return is_spent_; }

 private:
  /// Whether the budget has room for a value with `text`.
  bool take(std::string_view text) {
    // A pickle of a few kilobytes can share one list in many, whose copies would take all memory.
    const uint64_t bytes = sizeof(ArgValue) + text.size();
    is_spent_ = is_spent_ || bytes > left_;
    if (!is_spent_) left_ -= bytes;
    return !is_spent_;
  }

  std::optional<ArgValue> list_of(PickleId id, int depth);

  const PickleGraph& graph_;
  uint64_t left_;
  bool is_spent_ = false;
};

std::optional<ArgValue> ArgReader::list_of(PickleId id, int depth) {
  ArgValue::List list;
  if (depth > kMaxNesting) return std::nullopt;
  for (const PickleId element : graph_.node(id).children) {
    std::optional<ArgValue> value = value_of(element, depth + 1);
    if (!value.has_value()) return std::nullopt;
    list.push_back(*std::move(value));
  }
  return ArgValue{std::move(list)};
}

/// A call of a class with one number or text, as enums pickle.
std::optional<ArgValue> member_of(const PickleGraph& graph, PickleId id) {
  // A callable with other state than its arguments is more than an enum's member, and is left out.
  const PickleNode& node = graph.node(id);
  const PickleCall& call = graph.call(id);
  if (call.form != PickleCallForm::kReduce || node.children.size() != 2 || !call.items.empty() ||
      !call.pairs.empty() || !call.states.empty()) {
    return std::nullopt;
  }
  const PickleNode& type = graph.node(node.children[0]);
  const PickleNode& arguments = graph.node(node.children[1]);
  if (type.kind != PickleKind::kGlobal || type.boolean || arguments.children.size() != 1) {
    return std::nullopt;
  }
  ArgValue::EnumMember member{.type = {.module = type.text, .name = type.name}, .value = {}};
  const PickleId value = arguments.children[0];
  if (const std::optional<int64_t> number = graph.as_int(value)) {
    member.value = *number;
  } else if (const std::optional<std::string_view> text = graph.as_string(value)) {
    member.value = std::string(*text);
  } else {
    return std::nullopt;
  }
  return ArgValue{std::move(member)};
}

std::optional<ArgValue> ArgReader::value_of(PickleId id, int depth) {
  const PickleNode& node = graph_.node(id);
  if (!take(node.kind == PickleKind::kString ? node.text : std::string_view())) return std::nullopt;
  switch (node.kind) {
    case PickleKind::kNone:
      return ArgValue{};
    case PickleKind::kBool:
      return ArgValue{node.boolean};
    case PickleKind::kInt:
      return ArgValue{node.integer};
    case PickleKind::kFloat:
      return ArgValue{node.real};
    case PickleKind::kString:
      return ArgValue{node.text};
    case PickleKind::kList:
      return list_of(id, depth);
    case PickleKind::kGlobal:
      if (node.boolean) return std::nullopt;
      return ArgValue{ArgValue::Global{.module = node.text, .name = node.name}};
    case PickleKind::kCall:
      return member_of(graph_, id);
    default:
      return std::nullopt;
  }
}

}  // namespace

void TrainingArgs::set(std::string_view name, ArgValue value) {
  const auto [place, is_new] = places_.try_emplace(std::string(name), entries_.size());
  if (is_new) {
    entries_.emplace_back(name, std::move(value));
  } else {
    entries_[place->second].second = std::move(value);
  }
}

const ArgValue* TrainingArgs::find(std::string_view name) const {
  const auto known = places_.find(std::string(name));
  return known == places_.end() ? nullptr : &entries_[known->second].second;
}

std::optional<megatron::FieldValue> TrainingArgs::field(std::string_view name) const {
  const ArgValue* found = find(name);
  if (found == nullptr) return std::nullopt;
  const auto& value = found->value;
  if (std::holds_alternative<std::monostate>(value)) return megatron::FieldValue();
  if (const auto* boolean = std::get_if<bool>(&value)) return megatron::FieldValue(*boolean);
  if (const auto* integer = std::get_if<int64_t>(&value)) return megatron::FieldValue(*integer);
  if (const auto* real = std::get_if<double>(&value)) return megatron::FieldValue(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return megatron::FieldValue(*text);
  if (const auto* global = std::get_if<ArgValue::Global>(&value)) {
    return megatron::FieldValue(global->module + "." + global->name);
  }
  // The lists among what a configuration reads, as words of a command line.
  const auto* list = std::get_if<ArgValue::List>(&value);
  if (list == nullptr || !model::is_list_field(name)) return std::nullopt;
  std::vector<std::string> words;
  for (const ArgValue& element : *list) {
    const auto* integer = std::get_if<int64_t>(&element.value);
    const auto* text = std::get_if<std::string>(&element.value);
    if (integer == nullptr && text == nullptr) return std::nullopt;
    words.push_back(integer != nullptr ? std::to_string(*integer) : *text);
  }
  return megatron::FieldValue(std::move(words));
}

ArgValue arg_value(const megatron::FieldValue& field) {
  const auto* words = std::get_if<std::vector<std::string>>(&field);
  if (words == nullptr) {
    return std::visit(
        [](const auto& plain) -> ArgValue {
          if constexpr (std::is_same_v<std::decay_t<decltype(plain)>, std::vector<std::string>>) {
            return {};
          } else {
            return {plain};
          }
        },
        field);
  }
  ArgValue::List list;
  for (const std::string& word : *words) list.push_back({word});
  return {std::move(list)};
}

ArgValue whole_numbers_arg(const megatron::FieldValue& field) {
  ArgValue made = arg_value(field);
  auto* list = std::get_if<ArgValue::List>(&made.value);
  if (list == nullptr) return made;
  for (ArgValue& element : *list) {
    const std::string word = std::get<std::string>(element.value);
    int64_t number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    element.value = number;
  }
  return made;
}

ArgValue window_size_arg(int64_t attention_window) {
  return {ArgValue::List{{attention_window - 1}, {int64_t{0}}}};
}

Result<TrainingArgs> read_training_args(const TorchFile& file, PickleId args) {
  const PickleGraph& graph = file.graph();
  TrainingArgs found;
  PickleId dict = args;
  if (graph.node(args).kind != PickleKind::kDict) {
    const std::optional<PickleId> attributes = graph.attributes(args);
    if (!attributes.has_value()) return found;
    dict = *attributes;
  }
  const uint64_t budget = kLeastBudget + kBudgetOfByte * file.size();
  ArgReader reader(graph, budget);
  const std::span<const PickleId> pairs = graph.pairs(dict);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<std::string_view> name = graph.as_string(pairs[i]);
    std::optional<ArgValue> value = reader.value_of(pairs[i + 1]);
    if (reader.is_spent()) {
      return make_error(StatusCode::kResourceExhausted,
                        "{}: args: expected values of at most {} bytes in a file of {}, found more",
                        file.path(), budget, file.size());
    }
    if (name.has_value() && value.has_value()) found.set(*name, *std::move(value));
  }
  return found;
}

}  // namespace meg::checkpoint
