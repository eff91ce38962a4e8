#include "tools/common/flags/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <span>
#include <string_view>
#include <utility>

#include "libmeg/base/result.h"
#include "libmeg/base/version.h"
#include "libmeg/megatron/field_value.h"
#include "libmeg/text/printable.h"
#include "tools/common/build_info.h"
#include "tools/common/events.h"
#include "tools/common/flags/argument_flags.h"
#include "tools/common/flags/flag_parser.h"
#include "tools/common/report.h"

// The declarations of a program's flags and the order of what becomes of them: words are read by
// argparse's rules, --help and its like end the program, then notes, refusals and missing flags.
// What is in the words is in command_line.cpp, what the table of Megatron's arguments adds in
// argument_flags.cpp.

namespace meg::tools {
namespace {

constexpr std::string_view kGeneralGroup = "General";
constexpr int kNotDone = 1;

FlagSpec* add(FlagTable& table, FlagSpec spec) {
  spec.group = table.group;
  // The default in --help is what the variable holds now: defaults are stated once, where the
  // variable is declared.
  spec.default_text = current_value(spec);
  auto& list = spec.use == FlagSpec::Use::kPositional ? table.positionals : table.flags;
  return list.emplace_back(std::make_unique<FlagSpec>(std::move(spec))).get();
}

FlagSpec bound(std::string name, FlagSpec::Target target, Arity arity, std::string metavar,
               std::string help) {
  FlagSpec spec;
  spec.name = std::move(name);
  spec.arity = arity;
  spec.target = std::move(target);
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

/// Adds the flags that every program has, after those of the argument table.
void complete(FlagTable& table) {
  add_argument_flags(table);
  // parse() may be called again, and the general flags must stand in the table once.
  if (std::exchange(table.complete, true)) return;
  table.group = kGeneralGroup;
  FlagSpec config =
      unbound("--config", FlagSpec::Use::kConfig, Arity::kValue,
              "read flags from FILE, with lines `flag = value`; the command line takes precedence");
  config.metavar = "FILE";
  add(table, std::move(config));
  add(table, unbound("--help", FlagSpec::Use::kHelp, Arity::kSwitch, "print this help"));
  add(table, unbound("--version", FlagSpec::Use::kVersion, Arity::kSwitch, "print the version"));
  if (table.arguments.empty()) return;
  add(table, unbound("--list-arguments", FlagSpec::Use::kListArguments, Arity::kSwitch,
                     "print how each of Megatron's flags is handled, as a table"));
}

Result<ParsedFlags> parse_words(const FlagTable& table, std::span<const std::string_view> words) {
  MEG_ASSIGN_OR_RETURN(const CommandLine line, read_command_line(table, words));
  return parse_flags(table, line);
}

/// argparse's form and exit code: the usage, then the error as the last line.
void print_error(const Status& status, std::ostream& err) {
  err << "error: " << status.message() << std::endl;
  send_error(status);
}

int usage_error(const FlagTable& table, std::string message, std::ostream& err) {
  err << usage_line(table) << "\ntry: " << table.program << " --help\n";
  print_error(Status(StatusCode::kInvalidArgument, std::move(message)), err);
  return kUsageError;
}

using Given = std::vector<NamedFlag>;

/// The names of given flags that are used so, in the order in which they came.
std::vector<std::string_view> given_names(const Given& given, FlagSpec::Use use) {
  std::vector<std::string_view> names;
  for (const NamedFlag& flag : given) {
    if (flag.spec->use == use) names.push_back(flag.spec->name);
  }
  return names;
}

void print_notes(const Given& given, std::ostream& err) {
  for (const NamedFlag& flag : given) {
    if (!flag.is_old_name) continue;
    err << "note: " << flag.name << " is the old name of " << flag.spec->name << std::endl;
  }
  for (const std::string& text : ignored_arguments(given)) err << "note: " << text << std::endl;
}

/// The whole value in one line: two that differ anywhere must not look alike.
std::string whole_text(const megatron::FieldValue& value) {
  constexpr size_t kNoLimit = std::string::npos;
  if (const auto* text = std::get_if<std::string>(&value)) {
    return text::printable_name(*text, kNoLimit);
  }
  const auto* words = std::get_if<std::vector<std::string>>(&value);
  if (words == nullptr) return megatron::field_text(value);
  std::string list;
  for (const std::string& word : *words) {
    list += (list.empty() ? "" : " ") + text::printable(word, kNoLimit);
  }
  return "[" + list + "]";
}

/// Everything required that was not given.
std::vector<std::string> missing_names(const FlagTable& table, const ParsedFlags& parsed) {
  std::vector<std::string> missing;
  for (size_t i = parsed.positionals; i < table.positionals.size(); ++i) {
    if (table.positionals[i]->required) missing.push_back(table.positionals[i]->name);
  }
  for (const auto& spec : table.flags) {
    // Given by the --config file counts as well.
    const auto is_spec = [&](const NamedFlag& flag) { return flag.spec == spec.get(); };
    if (spec->required && std::none_of(parsed.given.begin(), parsed.given.end(), is_spec)) {
      missing.push_back(spec->name);
    }
  }
  if (table.also_missing) {
    for (std::string& name : table.also_missing()) missing.push_back(std::move(name));
  }
  return missing;
}

std::optional<int> finish(const FlagTable& table, const ParsedFlags& parsed, std::ostream& err) {
  // Notes first: the error is the last line, whichever it is.
  if (table.notes) print_notes(parsed.given, err);
  // What cannot be done comes before what is missing: adding the missing flags would not help.
  const auto not_yet = given_names(parsed.given, FlagSpec::Use::kNotYet);
  std::string refused = refused_arguments(parsed.given);
  if (!not_yet.empty()) {
    print_error(make_error(StatusCode::kUnsupported, "{} is not supported yet", not_yet[0]), err);
    return kNotDone;
  }
  if (!refused.empty()) {
    print_error(Status(StatusCode::kUnsupported, std::move(refused)), err);
    return kNotDone;
  }
  const std::vector<std::string> missing = missing_names(table, parsed);
  if (missing.empty()) return std::nullopt;
  return usage_error(table, fmt::format("{}: required", fmt::join(missing, ", ")), err);
}

}  // namespace

Flag& Flag::required() {
  spec_->required = true;
  return *this;
}

Flag& Flag::old_name(std::string name) {
  spec_->old_names.push_back(std::move(name));
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

void Flags::usage(std::string needed) { table_->needed = std::move(needed); }

void Flags::examples(std::vector<std::string> commands) { table_->examples = std::move(commands); }

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

void Flags::not_yet(std::string name, Arity arity) {
  add(*table_, unbound(std::move(name), FlagSpec::Use::kNotYet, arity, std::string()));
}

void Flags::arguments(std::span<const megatron::ArgumentRow> rows, const ArgumentScope& scope,
                      megatron::ArgumentValues* values) {
  values->add_defaults(rows);
  table_->families.push_back({rows, scope, values});
}

void Flags::also_requires(std::function<std::vector<std::string>()> missing) {
  table_->also_missing = std::move(missing);
}

void Flags::notes(bool wanted) { table_->notes = wanted; }

std::optional<int> Flags::parse(int argc, const char* const* argv, std::ostream& out,
                                std::ostream& err) {
  complete(*table_);
  std::vector<std::string_view> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  const Result<ParsedFlags> parsed = parse_words(*table_, words);
  if (!parsed.has_value()) return usage_error(*table_, parsed.error().message(), err);
  switch (parsed->end) {
    case ParsedFlags::End::kHelp:
      out << help_text(*table_, output_columns()) << std::flush;
      return 0;
    case ParsedFlags::End::kVersion:
      out << table_->program.substr(0, table_->program.find(' ')) << " (libmeg) " << version()
          << '\n'
          << build_info() << std::endl;
      return 0;
    case ParsedFlags::End::kListArguments:
      out << argument_list(*table_) << std::flush;
      return 0;
    case ParsedFlags::End::kGoOn:
      break;
  }
  return finish(*table_, *parsed, err);
}

std::optional<int> Flags::parse(int argc, const char* const* argv) {
  return parse(argc, argv, std::cout, std::cerr);
}

std::string Flags::settings() const {
  std::string lines = fmt::format("{} (libmeg) {}\n", table_->program, version());
  for (const auto* specs : {&table_->flags, &table_->positionals}) {
    for (const auto& spec : *specs) {
      const std::optional<megatron::FieldValue> value = held_value(*spec);
      if (!value.has_value() || !spec->of_each_rank.empty()) continue;
      lines += fmt::format("{} {}\n", spec->name, whole_text(*value));
    }
  }
  return lines;
}

}  // namespace meg::tools
