#include "tools/common/flags/flag_parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "libmeg/text/printable.h"
#include "tools/common/flags/config_file.h"

namespace meg::tools {
namespace {

/// Every value goes to CLI11 after this mark, so that it takes no value for a flag, a list or
/// nothing at all. A list without values is one empty word.
constexpr char kMark = '=';

/// Values of a list; far below the number at which CLI11 begins to read lists differently.
constexpr int kMaxValues = 1 << 24;

std::string marked(std::string_view value) { return kMark + std::string(value); }

std::string unmarked(const std::string& word) { return word.empty() ? word : word.substr(1); }

/// Hands the stream of a --config file on; files are never written.
class ConfigFormat : public CLI::Config {
 public:
  using Reader = std::function<std::vector<CLI::ConfigItem>(std::istream&)>;

  explicit ConfigFormat(Reader reader) : reader_(std::move(reader)) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    return reader_(input);
  }

 private:
  Reader reader_;
};

/// A CLI::App with the options that are in use. It would take 60 ms to give it all of Megatron's.
class FlagParser {
 public:
  FlagParser(const FlagTable& table, const CommandLine& line)
      : table_(table), line_(line), app_(table.summary, table.program) {
    parsed_.positionals = line.positionals.size();
    // CLI11's own --help prints its own text: taken away.
    app_.set_help_flag();
    app_.config_formatter(std::make_shared<ConfigFormat>(
        [this](std::istream& input) { return config_items(input); }));
  }

  Result<ParsedFlags> run() {
    try {
      app_.parse(words());
    } catch (const CLI::CallForHelp&) {
      parsed_.end = ParsedFlags::End::kHelp;
    } catch (const CLI::CallForAllHelp&) {
      // CLI11's exception for --help-all, which no program has, stands for this.
      parsed_.end = ParsedFlags::End::kListArguments;
    } catch (const CLI::CallForVersion&) {
      parsed_.end = ParsedFlags::End::kVersion;
    } catch (const CLI::FileError&) {
      return error(fmt::format("--config: expected a readable file, found {}",
                               text::printable(config_path())));
    } catch (const CLI::ConfigError& wrong) {
      return error(config_path() + ":" + wrong.what());
    } catch (const CLI::ExtrasError&) {
      const size_t taken = table_.positionals.size();
      return error(
          fmt::format("unexpected argument {}", text::printable(line_.positionals[taken])));
    } catch (const CLI::Error& wrong) {
      return error(where_checked() + wrong.what());
    }
    return std::move(parsed_);
  }

 private:
  std::string config_path() const { return app_.get_config_ptr()->as<std::string>(); }

  /// FILE:LINE of the value that was looked at last; nothing where the command line has it.
  std::string where_checked() const {
    const auto line = lines_.find(checked_);
    return line == lines_.end() ? "" : fmt::format("{}:{}: ", config_path(), line->second);
  }

  static Status error(std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  }

  /// The command line as CLI11 reads it, backwards: positionals first, so that no list eats them.
  std::vector<std::string> words() {
    std::vector<std::string> all;
    for (const auto& spec : table_.positionals) option(*spec);
    for (const std::string_view value : line_.positionals) all.push_back(marked(value));
    for (const FlagUse& use : line_.flags) {
      option(*use.flag.spec);
      note_given(use.flag);
      all.push_back(use.flag.spec->name);
      for (const std::string_view value : use.values) all.push_back(marked(value));
      if (use.values.empty() && use.flag.spec->arity == Arity::kList) all.emplace_back();
    }
    // CLI11 takes words off the end of the vector that it is given.
    std::reverse(all.begin(), all.end());
    return all;
  }

  void option(FlagSpec& spec) {
    if (options_.insert(&spec).second) declare(spec);
  }

  /// Options act as soon as they are read: errors come in the order of the command line, and a
  /// flag that is given again starts over.
  void declare(FlagSpec& spec) {
    switch (spec.use) {
      case FlagSpec::Use::kHelp:
        app_.add_flag_callback(spec.name, [] { throw CLI::CallForHelp(); })->trigger_on_parse();
        return;
      case FlagSpec::Use::kVersion:
        app_.set_version_flag(spec.name)->trigger_on_parse();
        return;
      case FlagSpec::Use::kListArguments:
        app_.add_flag_callback(spec.name, [] { throw CLI::CallForAllHelp(); })->trigger_on_parse();
        return;
      case FlagSpec::Use::kConfig:
        app_.set_config(spec.name)->transform(unmarked)->trigger_on_parse();
        return;
      default:
        declare_bound(spec);
    }
  }

  void declare_bound(FlagSpec& spec) {
    if (spec.arity == Arity::kSwitch) {
      app_.add_flag_callback(
              spec.name, [&spec] { store_values(spec, {}); }, spec.help)
          ->group(spec.group)
          ->trigger_on_parse();
      return;
    }
    const auto store = [&spec](const CLI::results_t& words) {
      std::vector<std::string> values;
      for (const std::string& word : words) {
        if (!word.empty()) values.push_back(unmarked(word));
      }
      store_values(spec, values);
      return true;
    };
    const bool positional = spec.use == FlagSpec::Use::kPositional;
    const bool list = spec.arity == Arity::kList;
    app_.add_option(spec.name, store, spec.help)
        ->type_name(spec.metavar)
        ->group(spec.group)
        ->expected(1, list ? kMaxValues : 1)
        ->allow_extra_args(positional && list)
        ->check(CLI::Validator([this, &spec](std::string& word) { return check(spec, word); }, ""))
        ->trigger_on_parse(!positional);
  }

  std::string check(const FlagSpec& spec, const std::string& word) {
    // CLI11's errors do not say where a value came from; this does, see where_checked().
    checked_ = &spec;
    return word.empty() ? "" : complaint(spec, unmarked(word));
  }

  /// The entries of the --config file as CLI11 takes them, under the names of their options.
  std::vector<CLI::ConfigItem> config_items(std::istream& input) {
    const Result<std::vector<ConfigEntry>> entries = read_config(input);
    if (!entries.has_value()) throw CLI::ConfigError(entries.error().message());
    std::vector<CLI::ConfigItem> items;
    for (const ConfigEntry& entry : *entries) {
      Result<CLI::ConfigItem> item = config_item(entry);
      if (!item.has_value()) {
        throw CLI::ConfigError(fmt::format("{}: {}", entry.line, item.error().message()));
      }
      items.push_back(*std::move(item));
    }
    return items;
  }

  Result<CLI::ConfigItem> config_item(const ConfigEntry& entry) {
    MEG_ASSIGN_OR_RETURN(const NamedFlag flag, flag_of_key(entry.key));
    FlagSpec& spec = *flag.spec;
    // Two lines for one flag, be it under two of its names: neither is taken for the one that was
    // meant.
    const auto [first, added] = lines_.emplace(&spec, entry.line);
    if (!added)
      return error(fmt::format("{}: given twice, first in line {}", spec.name, first->second));
    CLI::ConfigItem item;
    item.name = spec.name.substr(2);
    auto inputs = config_inputs(spec, entry.value);
    if (!inputs.has_value()) return inputs.error().with_prefix(spec.name);
    item.inputs = *std::move(inputs);
    // `switch = false` says what holds without the line: the flag does not count as given.
    if (spec.arity != Arity::kSwitch || item.inputs[0] == "true") note_given(flag);
    option(spec);
    return item;
  }

  Result<NamedFlag> flag_of_key(std::string_view key) const {
    const std::string name = fmt::format("--{}", key);
    const std::optional<NamedFlag> flag = find_flag(table_, name);
    if (!flag.has_value()) {
      const FlagSpec* nearest = nearest_flag(table_, name);
      return error(fmt::format(
          "unknown key {}{}", text::printable(key),
          nearest == nullptr ? "" : fmt::format(": did you mean {}?", nearest->name.substr(2))));
    }
    const FlagSpec::Use use = flag->spec->use;
    if (use == FlagSpec::Use::kHelp || use == FlagSpec::Use::kVersion ||
        use == FlagSpec::Use::kListArguments || use == FlagSpec::Use::kConfig) {
      return error(fmt::format("{} is only allowed on the command line", flag->spec->name));
    }
    return *flag;
  }

  static Result<std::vector<std::string>> config_inputs(const FlagSpec& spec,
                                                        std::string_view value) {
    if (spec.arity == Arity::kSwitch) return switch_input(value);
    std::vector<std::string> inputs;
    if (spec.arity == Arity::kValue) {
      MEG_ASSIGN_OR_RETURN(const std::string text, config_text(value));
      inputs.push_back(marked(text));
      return inputs;
    }
    MEG_ASSIGN_OR_RETURN(const std::vector<std::string> values, config_list(value));
    for (const std::string& text : values) inputs.push_back(marked(text));
    if (!inputs.empty()) return inputs;
    if (!spec.may_be_empty) return error(fmt::format("expected {}, found none", spec.metavar));
    return std::vector<std::string>{""};
  }

  static Result<std::vector<std::string>> switch_input(std::string_view value) {
    if (value == "true" || value == "True") return std::vector<std::string>{"true"};
    if (value == "false" || value == "False") return std::vector<std::string>{"false"};
    return error(fmt::format("expected true or false, found {}", text::printable(value)));
  }

  /// Each flag once; by whatever name it came first.
  void note_given(const NamedFlag& flag) {
    const bool known = std::any_of(parsed_.given.begin(), parsed_.given.end(),
                                   [&](const NamedFlag& other) { return other.spec == flag.spec; });
    if (!known) parsed_.given.push_back(flag);
  }

  const FlagTable& table_;
  const CommandLine& line_;
  CLI::App app_;
  std::set<const FlagSpec*> options_;         ///< Those that app_ has.
  std::map<const FlagSpec*, int64_t> lines_;  ///< Of the --config file, where it gives them.
  const FlagSpec* checked_ = nullptr;         ///< Whose value was looked at last.
  ParsedFlags parsed_;
};

}  // namespace

Result<ParsedFlags> parse_flags(const FlagTable& table, const CommandLine& line) {
  return FlagParser(table, line).run();
}

}  // namespace meg::tools
