#include "tools/common/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <span>
#include <string_view>
#include <utility>

#include "libmeg/core/printable.h"
#include "libmeg/core/version.h"
#include "tools/common/flag_spec.h"

namespace meg::tools {
namespace {

constexpr std::string_view kGeneralGroup = "General";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Such as -1, -.5 and -1e-3: a value, never a flag.
bool is_negative_number(std::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  return is_digit(text[1]) || (text[1] == '.' && text.size() > 2 && is_digit(text[2]));
}

/// As argparse decides: what begins with a dash is a flag unless it is `-`, a negative number or
/// has a space in its name.
bool looks_like_flag(std::string_view text) {
  if (text.size() < 2 || text[0] != '-' || is_negative_number(text)) return false;
  return text.substr(0, text.find('=')).find(' ') == std::string_view::npos;
}

/// One walk over a command line.
class Parser {
 public:
  Parser(FlagTable& table, std::vector<std::string_view> arguments, std::ostream& out,
         std::ostream& err)
      : table_(table), arguments_(std::move(arguments)), out_(out), err_(err) {}

  std::optional<int> run() {
    while (next_ < arguments_.size()) {
      const std::string_view argument = arguments_[next_++];
      std::optional<int> exit_code;
      if (!only_positionals_ && argument == "--") {
        only_positionals_ = true;
      } else if (!only_positionals_ && looks_like_flag(argument)) {
        exit_code = take_flag(argument);
      } else {
        exit_code = take_positional(argument);
      }
      if (exit_code.has_value()) return exit_code;
    }
    return finish();
  }

 private:
  std::optional<int> usage_error(std::string_view message) {
    err_ << usage_line(table_) << "\ntry: " << table_.program << " --help\nerror: " << message
         << std::endl;
    return 2;
  }

  bool value_follows() const {
    return next_ < arguments_.size() && arguments_[next_] != "--" &&
           !looks_like_flag(arguments_[next_]);
  }

  std::optional<int> take_flag(std::string_view argument) {
    const size_t equals = argument.find('=');
    const std::string_view typed = argument.substr(0, equals);
    const std::vector<FlagSpec*> found = find(typed);
    if (found.empty()) return unknown_flag(typed);
    if (found.size() > 1) return ambiguous_flag(typed, found);
    std::vector<std::string_view> values;
    if (equals != std::string_view::npos) values.push_back(argument.substr(equals + 1));
    return use_flag(*found[0], std::move(values));
  }

  /// The flag of that name, else every flag that it begins; of others() where there is none else.
  std::vector<FlagSpec*> find(std::string_view typed) const {
    std::vector<FlagSpec*> found;
    std::vector<FlagSpec*> others;
    if (typed == "-h") typed = "--help";
    for (const auto& spec : table_.flags) {
      if (same_flag_name(typed, spec->name)) return {spec.get()};
      if (!spec->old_name.empty() && same_flag_name(typed, spec->old_name)) {
        err_ << "note: " << spec->old_name << " is the old name of " << spec->name << std::endl;
        return {spec.get()};
      }
      if (typed.size() > 2 && begins_flag_name(typed, spec->name)) {
        (spec->use == FlagSpec::Use::kOther ? others : found).push_back(spec.get());
      }
    }
    return found.empty() ? others : found;
  }

  std::optional<int> unknown_flag(std::string_view typed) {
    const FlagSpec* nearest = nearest_flag(table_, typed);
    const std::string hint =
        nearest == nullptr ? "" : fmt::format(": did you mean {}?", nearest->name);
    return usage_error(fmt::format("unknown flag {}{}", printable_name(typed), hint));
  }

  /// A name as typed where that is safe to print.
  static std::string printable_name(std::string_view typed) {
    const std::string quoted = printable(typed);
    return quoted.size() == typed.size() + 2 ? std::string(typed) : quoted;
  }

  std::optional<int> ambiguous_flag(std::string_view typed, const std::vector<FlagSpec*>& found) {
    std::vector<std::string_view> names;
    names.reserve(found.size());
    for (const FlagSpec* spec : found) names.push_back(spec->name);
    return usage_error(
        fmt::format("ambiguous flag {}: could be {}", typed, fmt::join(names, ", ")));
  }

  /// values: what stood behind `=`, if anything.
  std::optional<int> use_flag(FlagSpec& spec, std::vector<std::string_view> values) {
    if (spec.arity == Arity::kSwitch && !values.empty()) {
      return usage_error(
          fmt::format("{}: expected no value, found {}", spec.name, printable(values[0])));
    }
    if (const auto exit_code = collect_values(spec, values)) return exit_code;
    switch (spec.use) {
      case FlagSpec::Use::kHelp:
        out_ << help_text(table_) << std::flush;
        return 0;
      case FlagSpec::Use::kVersion:
        out_ << table_.program.substr(0, table_.program.find(' ')) << " (libmeg) " << version()
             << std::endl;
        return 0;
      case FlagSpec::Use::kNotYet:
        err_ << "error: " << spec.name << " is not supported yet" << std::endl;
        return 1;
      case FlagSpec::Use::kIgnored:
        if (!spec.given) err_ << "note: " << spec.name << " makes no difference here" << std::endl;
        break;
      case FlagSpec::Use::kOther:
        if (!spec.given) others_.push_back(spec.name);
        break;
      default:
        break;
    }
    spec.given = true;
    return store(spec, values);
  }

  std::optional<int> store(const FlagSpec& spec, const std::vector<std::string_view>& values) {
    const Status status = store_values(spec, values);
    if (!status.ok()) return usage_error(status.message());
    return std::nullopt;
  }

  /// Adds the values that follow. Behind `--list=value` more may follow only where they could not
  /// be positionals.
  std::optional<int> collect_values(const FlagSpec& spec, std::vector<std::string_view>& values) {
    if (spec.arity == Arity::kSwitch) return std::nullopt;
    const bool more = spec.arity == Arity::kList && (values.empty() || table_.positionals.empty());
    while (value_follows() && (more || values.empty())) values.push_back(arguments_[next_++]);
    const bool may_be_empty = spec.use == FlagSpec::Use::kOther && spec.arity == Arity::kList;
    if (!values.empty() || may_be_empty) return std::nullopt;
    const std::string found =
        next_ < arguments_.size() ? printable(arguments_[next_]) : "the end of the command line";
    const std::string_view what = spec.metavar.empty() ? "VALUE" : std::string_view(spec.metavar);
    return usage_error(fmt::format("{}: expected {}, found {}", spec.name, what, found));
  }

  std::optional<int> take_positional(std::string_view argument) {
    if (positional_ == table_.positionals.size()) {
      return usage_error(fmt::format("unexpected argument {}", printable(argument)));
    }
    FlagSpec& spec = *table_.positionals[positional_];
    spec.given = true;
    if (spec.arity == Arity::kList) {
      rest_.push_back(argument);
      return store(spec, rest_);
    }
    ++positional_;
    return store(spec, {argument});
  }

  std::optional<int> finish() {
    for (const auto& spec : table_.positionals) {
      if (spec->required && !spec->given) {
        return usage_error(fmt::format("{} is missing", spec->name));
      }
    }
    for (const auto& spec : table_.flags) {
      if (spec->required && !spec->given) {
        return usage_error(fmt::format("{} is required", spec->name));
      }
    }
    note_others();
    return std::nullopt;
  }

  void note_others() {
    if (others_.empty()) return;
    const size_t shown = std::min<size_t>(others_.size(), 3);
    const std::span<const std::string_view> first = std::span(others_).first(shown);
    std::string names = fmt::format("{}", fmt::join(first, ", "));
    if (others_.size() > shown) names += fmt::format(" and {} more", others_.size() - shown);
    const bool one = others_.size() == 1;
    err_ << "note: " << (one ? "" : "training flags that make no difference here: ") << names
         << (one ? " makes no difference here" : "") << std::endl;
  }

  FlagTable& table_;
  const std::vector<std::string_view> arguments_;
  std::ostream& out_;
  std::ostream& err_;
  size_t next_ = 0;
  size_t positional_ = 0;
  std::vector<std::string_view> rest_;    ///< Values of a positional list.
  std::vector<std::string_view> others_;  ///< Those of others() that were given.
  bool only_positionals_ = false;
};

FlagSpec* add(FlagTable& table, FlagSpec spec) {
  spec.group = table.group;
  spec.default_text = current_value(spec);
  auto& list = spec.use == FlagSpec::Use::kPositional ? table.positionals : table.flags;
  return list.emplace_back(std::make_unique<FlagSpec>(std::move(spec))).get();
}

FlagSpec bound(std::string name, FlagSpec::Target target, Arity arity, std::string metavar,
               std::string help) {
  FlagSpec spec;
  spec.name = std::move(name);
  spec.arity = arity;
  spec.target = target;
  spec.metavar = std::move(metavar);
  spec.help = std::move(help);
  return spec;
}

FlagSpec unbound(std::string name, FlagSpec::Use use, Arity arity, std::string help) {
  FlagSpec spec;
  spec.name = std::move(name);
  spec.use = use;
  spec.arity = arity;
  spec.help = std::move(help);
  return spec;
}

FlagSpec as_positional(FlagSpec spec) {
  spec.use = FlagSpec::Use::kPositional;
  spec.required = true;
  return spec;
}

}  // namespace

Flag& Flag::required() {
  spec_->required = true;
  return *this;
}

Flag& Flag::old_name(std::string name) {
  spec_->old_name = std::move(name);
  return *this;
}

Flag& Flag::range(int64_t min, int64_t max) {
  spec_->min = min;
  spec_->max = max;
  return *this;
}

Flag& Flag::real_range(double min, double max) {
  spec_->real_min = min;
  spec_->real_max = max;
  spec_->real_limits = true;
  return *this;
}

Flag& Flag::choices(std::vector<std::string> allowed) {
  spec_->choices = std::move(allowed);
  return *this;
}

Flag& Flag::optional() {
  spec_->required = false;
  return *this;
}

Flags::Flags(std::string program, std::string summary) : table_(std::make_unique<FlagTable>()) {
  table_->program = std::move(program);
  table_->summary = std::move(summary);
  table_->group = kGeneralGroup;
}

Flags::~Flags() = default;

void Flags::group(std::string title) { table_->group = std::move(title); }

Flag Flags::value(std::string name, ValueTarget target, std::string metavar, std::string help) {
  const auto widen = [](auto* variable) { return FlagSpec::Target(variable); };
  return Flag(add(*table_, bound(std::move(name), std::visit(widen, target), Arity::kValue,
                                 std::move(metavar), std::move(help))));
}

Flag Flags::list(std::string name, std::vector<std::string>* target, std::string metavar,
                 std::string help) {
  return Flag(add(
      *table_, bound(std::move(name), target, Arity::kList, std::move(metavar), std::move(help))));
}

Flag Flags::toggle(std::string name, bool* target, std::string help) {
  return Flag(
      add(*table_, bound(std::move(name), target, Arity::kSwitch, std::string(), std::move(help))));
}

Flag Flags::positional(std::string name, std::string* target, std::string help) {
  return Flag(add(*table_, as_positional(bound(std::move(name), target, Arity::kValue,
                                               std::string(), std::move(help)))));
}

Flag Flags::positional_list(std::string name, std::vector<std::string>* target, std::string help) {
  return Flag(add(*table_, as_positional(bound(std::move(name), target, Arity::kList, std::string(),
                                               std::move(help)))));
}

void Flags::ignored(std::string name, Arity arity) {
  add(*table_, unbound(std::move(name), FlagSpec::Use::kIgnored, arity, std::string()));
}

void Flags::others(std::string_view names, Arity arity) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    const bool declared =
        std::any_of(table_->flags.begin(), table_->flags.end(), [name](const auto& spec) {
          return same_flag_name(name, spec->name) || same_flag_name(name, spec->old_name);
        });
    if (declared) continue;
    add(*table_, unbound(std::string(name), FlagSpec::Use::kOther, arity, std::string()));
  }
}

void Flags::not_yet(std::string name, Arity arity) {
  add(*table_, unbound(std::move(name), FlagSpec::Use::kNotYet, arity, std::string()));
}

void Flags::arguments(std::span<const megatron::ArgumentRow> rows, const ArgumentScope& /*scope*/,
                      megatron::ArgumentValues* values) {
  values->add_defaults(rows);
}

std::optional<int> Flags::parse(int argc, const char* const* argv, std::ostream& out,
                                std::ostream& err) {
  if (table_->flags.empty() || table_->flags.back()->use != FlagSpec::Use::kVersion) {
    table_->group = kGeneralGroup;
    add(*table_, unbound("--help", FlagSpec::Use::kHelp, Arity::kSwitch, "show this text"));
    add(*table_, unbound("--version", FlagSpec::Use::kVersion, Arity::kSwitch, "show the version"));
  }
  std::vector<std::string_view> arguments;
  for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
  return Parser(*table_, std::move(arguments), out, err).run();
}

std::optional<int> Flags::parse(int argc, const char* const* argv) {
  return parse(argc, argv, std::cout, std::cerr);
}

}  // namespace meg::tools
