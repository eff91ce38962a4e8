#include "tools/common/argument_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace meg::tools {
namespace {

using megatron::ArgumentArity;
using megatron::ArgumentRow;
using megatron::ArgumentType;
using megatron::ArgumentValue;
using megatron::Effect;

struct EffectWords {
  std::string_view group;  ///< The topic in --help.
  std::string_view noun;   ///< What "would change".
};

EffectWords words_of(Effect effect) {
  switch (effect) {
    case Effect::kModel:
      return {"Model", "model"};
    case Effect::kData:
      return {"Data", "data"};
    case Effect::kSchedule:
      return {"Schedule", "schedule"};
    case Effect::kOptimizer:
      return {"Optimizer", "optimizer"};
    case Effect::kCheckpoint:
      return {"Checkpoint", "checkpoint"};
    case Effect::kParallel:
      return {"Parallelism", "parallelism"};
    case Effect::kLog:
      return {"Logging", "log"};
    case Effect::kNone:
      break;
  }
  return {"Other", "nothing"};
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (space > 0) found.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return found;
}

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Arity arity_of(ArgumentArity arity) {
  if (arity == ArgumentArity::kSwitch) return Arity::kSwitch;
  return arity == ArgumentArity::kValue ? Arity::kValue : Arity::kList;
}

template <class T>
void read_limit(std::string_view text, T& limit) {
  std::from_chars(text.data(), text.data() + text.size(), limit);
}

/// range: "1..", "0..1", "..0"; what does not stand there is no limit.
void set_range(FlagSpec& spec, std::string_view range) {
  const size_t dots = range.find("..");
  if (dots == std::string_view::npos) return;
  const std::string_view min = range.substr(0, dots);
  const std::string_view max = range.substr(dots + 2);
  read_limit(min, spec.min);
  read_limit(max, spec.max);
  read_limit(min, spec.real_min);
  read_limit(max, spec.real_max);
  spec.real_limits = true;
}

void set_use(FlagSpec& spec, const ArgumentRow& row, const ArgumentScope& scope) {
  const EffectWords effect = words_of(row.effect);
  const auto idle = scope.idle.find(row.effect);
  if (contains(scope.reads, row.dest)) {
    spec.use = FlagSpec::Use::kBound;
    spec.required = contains(scope.required, row.dest);
  } else if (row.effect == Effect::kNone) {
    spec.use = FlagSpec::Use::kPassed;
    spec.reason = row.reason;
  } else if (idle != scope.idle.end()) {
    spec.use = FlagSpec::Use::kPassed;
    spec.reason = fmt::format("{}: {}", effect.noun, idle->second);
  } else {
    spec.use = FlagSpec::Use::kRefused;
    spec.reason = fmt::format("would change the {}", effect.noun);
  }
}

FlagSpec spec_of(const ArgumentRow& row, const ArgumentFamilyRows& family) {
  FlagSpec spec;
  spec.name = row.flag;
  spec.arity = arity_of(row.arity);
  spec.may_be_empty = row.arity == ArgumentArity::kList;
  spec.target = ArgumentField{&row, family.values, family.values->value(row.dest).value()};
  spec.group = words_of(row.effect).group;
  if (row.arity != ArgumentArity::kSwitch) {
    spec.metavar = row.metavar.empty() ? "VALUE" : row.metavar;
  }
  spec.help = row.help;
  spec.default_text = current_value(spec);
  const std::vector<std::string_view> choices = words(row.choices);
  spec.choices.assign(choices.begin(), choices.end());
  set_range(spec, row.range);
  set_use(spec, row, family.scope);
  return spec;
}

/// Adds rows to a table under the names that are still free.
class RowAdder {
 public:
  explicit RowAdder(FlagTable& table) : table_(table) {
    for (const auto& spec : table.flags) {
      owners_.emplace(plain(spec->name), spec.get());
      for (const std::string& name : spec->old_names) owners_.emplace(plain(name), spec.get());
    }
  }

  void add(const ArgumentRow& row, const ArgumentFamilyRows& family) {
    FlagSpec*& owner = owners_[plain(row.flag)];
    if (owner == nullptr) {
      owner = table_.flags.emplace_back(std::make_unique<FlagSpec>(spec_of(row, family))).get();
    }
    for (std::string_view name : words(row.other_names)) {
      const bool old = name.starts_with('(');
      if (old) name = name.substr(1, name.size() - 2);
      if (!owners_.emplace(plain(name), owner).second) continue;
      (old ? owner->old_names : owner->other_names).emplace_back(name);
    }
  }

 private:
  static std::string plain(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
  }

  FlagTable& table_;
  std::unordered_map<std::string, FlagSpec*> owners_;
};

double number_of(const FieldValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  return std::get<double>(value);
}

bool is_number(const FieldValue& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
}

/// As Python compares: 1 is 1.0.
bool same_value(const ArgumentValue& left, const ArgumentValue& right) {
  const auto* a = std::get_if<FieldValue>(&left);
  const auto* b = std::get_if<FieldValue>(&right);
  const bool numbers = a != nullptr && b != nullptr && is_number(*a) && is_number(*b);
  return numbers ? number_of(*a) == number_of(*b) : left == right;
}

/// A list of one word as that word: Megatron takes it so where the default is no list.
std::optional<ArgumentValue> only_word(const ArgumentValue& value) {
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  if (list == nullptr || list->size() != 1) return std::nullopt;
  return megatron::parse_python_value(list->front()).value_or(FieldValue(list->front()));
}

bool differs_from_default(const FlagSpec& spec) {
  const auto& field = std::get<ArgumentField>(spec.target);
  const ArgumentValue value = field.values->value(field.row->dest).value();
  if (same_value(value, field.default_value)) return false;
  const std::optional<ArgumentValue> word = only_word(value);
  return !word.has_value() || !same_value(*word, field.default_value);
}

/// Names by reason, both in the order in which they come.
class NamesByReason {
 public:
  void add(const FlagSpec& spec) {
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const auto& group) { return group.first == spec.reason; });
    if (found != groups_.end()) {
      found->second += ", " + spec.name;
    } else {
      groups_.emplace_back(spec.reason, spec.name);
    }
  }

  /// (reason, "--a, --b")
  const std::vector<std::pair<std::string, std::string>>& groups() const { return groups_; }

 private:
  std::vector<std::pair<std::string, std::string>> groups_;
};

}  // namespace

void add_argument_flags(FlagTable& table) {
  RowAdder adder(table);
  for (const ArgumentFamilyRows& family : std::exchange(table.families, {})) {
    for (const ArgumentRow& row : family.rows) adder.add(row, family);
  }
}

std::vector<std::string> ignored_arguments(const std::vector<NamedFlag>& given) {
  NamesByReason ignored;
  for (const auto& [spec, name, old] : given) {
    if (spec->use == FlagSpec::Use::kPassed) ignored.add(*spec);
  }
  std::vector<std::string> notes;
  for (const auto& [reason, names] : ignored.groups()) {
    notes.push_back(fmt::format("ignored: {} ({})", names, reason));
  }
  return notes;
}

std::string refused_arguments(const std::vector<NamedFlag>& given) {
  NamesByReason refused;
  for (const auto& [spec, name, old] : given) {
    if (spec->use == FlagSpec::Use::kRefused && differs_from_default(*spec)) refused.add(*spec);
  }
  std::string text;
  for (const auto& [reason, names] : refused.groups()) {
    text += fmt::format("{}{}: not supported yet ({})", text.empty() ? "" : "; ", names, reason);
  }
  return text;
}

}  // namespace meg::tools
