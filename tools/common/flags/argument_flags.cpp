#include "tools/common/flags/argument_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

// What becomes of a row is decided once, by set_use(), in this order: the program reads the field;
// the program says why this field does not matter; the table says that the flag never matters; the
// table itself knows which of its values libmeg does; the program says why this kind of effect does
// not matter, unless it reads the field, if only to refuse it; else the flag is refused. The last
// step is the rule that nothing which would change numbers, bytes or files is ever ignored: a new
// row is refused until somebody has said otherwise.

namespace meg::tools {
namespace {

struct EffectWords {
  std::string_view group;  ///< The topic in --help.
  std::string_view noun;   ///< What "would change".
};

EffectWords words_of(megatron::Effect effect) {
  switch (effect) {
    case megatron::Effect::kModel:
      return {"Model", "model"};
    case megatron::Effect::kData:
      return {"Data", "data"};
    case megatron::Effect::kTokenizer:
      return {"Tokenizer", "tokens"};
    case megatron::Effect::kSchedule:
      return {"Schedule", "schedule"};
    case megatron::Effect::kOptimizer:
      return {"Optimizer", "optimizer"};
    case megatron::Effect::kCheckpoint:
      return {"Checkpoint", "checkpoint"};
    case megatron::Effect::kParallel:
      return {"Parallelism", "parallelism"};
    case megatron::Effect::kLog:
      return {"Logging", "log"};
    case megatron::Effect::kNone:
      break;
  }
  return {"Other", "nothing"};
}

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Arity arity_of(megatron::ArgumentArity arity) {
  if (arity == megatron::ArgumentArity::kSwitch) return Arity::kSwitch;
  return arity == megatron::ArgumentArity::kValue ? Arity::kValue : Arity::kList;
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

/// A flag that the table says all about: of its values those pass that libmeg follows anyway.
bool is_read_by_table(const megatron::ArgumentRow& row) {
  return !row.supported.empty() && !row.help.empty();
}

void set_use(FlagSpec& spec, const megatron::ArgumentRow& row, const ArgumentScope& scope) {
  const EffectWords effect = words_of(row.effect);
  const bool is_read = contains(scope.reads, row.dest);
  const auto idle = is_read ? scope.idle.end() : scope.idle.find(row.effect);
  const auto idle_field = scope.idle_fields.find(row.dest);
  if (is_read && !row.help.empty()) {
    spec.use = FlagSpec::Use::kBound;
    spec.required = contains(scope.required, row.dest);
  } else if (idle_field != scope.idle_fields.end()) {
    spec.use = FlagSpec::Use::kPassed;
    spec.reason = idle_field->second;
  } else if (!row.reason.empty()) {
    spec.use = FlagSpec::Use::kPassed;
    spec.reason = row.reason;
  } else if (is_read_by_table(row) && idle == scope.idle.end()) {
    spec.use = FlagSpec::Use::kBound;
  } else if (idle != scope.idle.end()) {
    spec.use = FlagSpec::Use::kPassed;
    spec.reason = fmt::format("{}: {}", effect.noun, idle->second);
  } else {
    spec.use = FlagSpec::Use::kRefused;
  }
  // Do this also for a flag that is read: some of its values may be refused.
  if (spec.reason.empty()) spec.reason = fmt::format("would change the {}", effect.noun);
}

/// Why ranks of one run may differ in a row; empty for all others.
std::string_view why_of_each_rank(const megatron::ArgumentRow& row) {
  constexpr std::string_view kLaunched = "old launchers pass each process its number";
  return row.dest == "local_rank" || row.dest == "rank" ? kLaunched : std::string_view();
}

FlagSpec spec_of(const megatron::ArgumentRow& row, const ArgumentFamilyRows& family) {
  FlagSpec spec;
  spec.name = row.flag;
  spec.arity = arity_of(row.arity);
  spec.may_be_empty = row.arity == megatron::ArgumentArity::kList;
  spec.target = ArgumentField{&row, family.values, family.values->field(row.dest).value()};
  spec.group = words_of(row.effect).group;
  if (row.arity != megatron::ArgumentArity::kSwitch) {
    spec.metavar = row.metavar.empty() ? "VALUE" : row.metavar;
  }
  spec.help = row.help;
  spec.default_text = current_value(spec);
  const std::vector<std::string_view> choices = megatron::words_of(row.choices);
  spec.choices.assign(choices.begin(), choices.end());
  const std::vector<std::string_view> supported = megatron::words_of(row.supported);
  spec.supported.assign(supported.begin(), supported.end());
  set_range(spec, row.range);
  set_use(spec, row, family.scope);
  spec.of_each_rank = why_of_each_rank(row);
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

  void add(const megatron::ArgumentRow& row, const ArgumentFamilyRows& family) {
    FlagSpec*& owner = owners_[plain(row.flag)];
    // A flag that the program declared itself, or that an earlier family has, keeps its meaning;
    // the row only adds its other names.
    if (owner == nullptr) {
      owner = table_.flags.emplace_back(std::make_unique<FlagSpec>(spec_of(row, family))).get();
    }
    table_.arguments.emplace_back(&row, owner);
    for (std::string_view name : megatron::words_of(row.other_names)) {
      const bool old = name.starts_with('(');
      if (old) name = name.substr(1, name.size() - 2);
      // A name that another flag has keeps meaning that one.
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

/// A list of one word as that word: Megatron takes it so where the default is no list.
std::optional<megatron::FieldValue> only_word(const megatron::FieldValue& value) {
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  if (list == nullptr || list->size() != 1) return std::nullopt;
  return megatron::parse_python_value(list->front()).value_or(megatron::FieldValue(list->front()));
}

bool is_refused(const FlagSpec& spec) {
  const auto* target = std::get_if<ArgumentField>(&spec.target);
  if (target == nullptr || spec.use == FlagSpec::Use::kPassed) return false;
  const ArgumentField& field = *target;
  const megatron::FieldValue value = field.values->field(field.row->dest).value();
  // Tutorials spell out defaults: what a flag does not change may be given.
  if (megatron::same_field(value, field.default_value)) return false;
  const auto* text = std::get_if<std::string>(&value);
  const std::vector<std::string_view> supported = megatron::words_of(field.row->supported);
  if (text != nullptr && !supported.empty()) return !contains(supported, *text);
  if (spec.use != FlagSpec::Use::kRefused) return false;
  // A list that says the default as its one word is the default too.
  const std::optional<megatron::FieldValue> word = only_word(value);
  return !word.has_value() || !megatron::same_field(*word, field.default_value);
}

/// The value of a flag that is refused for its value alone.
std::string unsupported_word(const FlagSpec& spec) {
  const auto& field = std::get<ArgumentField>(spec.target);
  if (field.row->supported.empty()) return "";
  return std::get<std::string>(*field.values->field(field.row->dest));
}

/// Names by reason, both in the order in which they come.
class NamesByReason {
 public:
  void add(const FlagSpec& spec, const std::string& value = "") {
    const std::string name = value.empty() ? spec.name : spec.name + " " + value;
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const auto& group) { return group.first == spec.reason; });
    if (found != groups_.end()) {
      found->second += ", " + name;
    } else {
      groups_.emplace_back(spec.reason, name);
    }
  }

  /// (reason, "--a, --b")
  const std::vector<std::pair<std::string, std::string>>& groups() const { return groups_; }

 private:
  std::vector<std::pair<std::string, std::string>> groups_;
};

std::string_view family_name(megatron::ArgumentFamily family) {
  switch (family) {
    case megatron::ArgumentFamily::kTraining:
      return "training";
    case megatron::ArgumentFamily::kPreprocess:
      return "preprocess";
    case megatron::ArgumentFamily::kConvert:
      return "convert";
    case megatron::ArgumentFamily::kTasks:
      return "tasks";
    case megatron::ArgumentFamily::kTextGeneration:
      return "text generation";
    case megatron::ArgumentFamily::kMerge:
      break;
  }
  return "merge";
}

/// What becomes of a flag, and why.
std::pair<std::string_view, std::string> fate_of(const megatron::ArgumentRow& row,
                                                 const FlagSpec& spec) {
  switch (spec.use) {
    case FlagSpec::Use::kPassed:
      return {"ignored", spec.reason};
    case FlagSpec::Use::kRefused:
      return {"refused", spec.reason};
    case FlagSpec::Use::kNotYet:
      return {"refused", "not supported yet"};
    default:
      break;
  }
  if (row.supported.empty()) return {"read", spec.help};
  return {"read", fmt::format("{}; only {}", spec.help, row.supported)};
}

}  // namespace

std::string argument_list(const FlagTable& table) {
  std::string text = "family\tflag\tother names\tsince\tuntil\teffect\there\twhy\n";
  for (const auto& [row, spec] : table.arguments) {
    const auto& [fate, why] = fate_of(*row, *spec);
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", family_name(row->family), row->flag,
                        row->other_names, row->since, row->until, words_of(row->effect).noun, fate,
                        why);
  }
  return text;
}

void add_argument_flags(FlagTable& table) {
  RowAdder adder(table);
  for (const ArgumentFamilyRows& family : std::exchange(table.families, {})) {
    for (const megatron::ArgumentRow& row : family.rows) adder.add(row, family);
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
    if (is_refused(*spec)) refused.add(*spec, unsupported_word(*spec));
  }
  std::string text;
  for (const auto& [reason, names] : refused.groups()) {
    text += fmt::format("{}{}: not supported yet ({})", text.empty() ? "" : "; ", names, reason);
  }
  return text;
}

}  // namespace meg::tools
