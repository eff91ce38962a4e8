#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The field of Megatron's args that a row of the argument table stands for.
struct ArgumentField {
  const megatron::ArgumentRow* row;
  megatron::ArgumentValues* values;
  megatron::FieldValue default_value;
};

/// One declared flag or positional.
struct FlagSpec {
  enum class Use {
    kBound,
    kPositional,
    kNotYet,
    kPassed,   ///< A row that is taken with a note.
    kRefused,  ///< A row whose value must be the default.
    kHelp,
    kVersion,
    kListArguments,
    kConfig,
  };

  using Target = std::variant<std::monostate, std::string*, int64_t*, double*, bool*,
                              std::vector<std::string>*, std::optional<std::string>*,
                              std::optional<int64_t>*, std::optional<double>*, ArgumentField>;

  std::string name;
  std::vector<std::string> other_names;
  std::vector<std::string> old_names;  ///< Taken with a note.
  Use use = Use::kBound;
  Arity arity = Arity::kValue;
  Target target;
  std::string group;
  std::string metavar;
  std::string help;
  std::string default_text;       ///< Empty: nothing to show.
  std::string reason;             ///< Of kPassed and kRefused: what stands in parentheses.
  std::string_view of_each_rank;  ///< Why ranks of one run may differ in it; empty: they must not.
  bool required = false;
  bool may_be_empty = false;  ///< Lists: no value at all is fine.
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  double real_min = -std::numeric_limits<double>::infinity();
  double real_max = std::numeric_limits<double>::infinity();
  bool real_limits = false;
  std::vector<std::string> choices;  ///< That parsing takes; empty: any.
  /// The choices that are supported, if not all are; the others are refused after parsing.
  std::vector<std::string> supported;

  /// Those that help and errors list.
  const std::vector<std::string>& listed() const { return supported.empty() ? choices : supported; }
};

/// The rows that Flags::arguments() was called with.
struct ArgumentFamilyRows {
  std::span<const megatron::ArgumentRow> rows;
  ArgumentScope scope;
  megatron::ArgumentValues* values;
};

/// Everything that was declared about one program.
struct FlagTable {
  std::string program;
  std::string summary;
  std::string needed;                 ///< Further words of the usage line; mostly empty.
  std::vector<std::string> examples;  ///< Commands with which --help ends.
  std::string group;
  std::vector<std::unique_ptr<FlagSpec>> flags;
  std::vector<std::unique_ptr<FlagSpec>> positionals;
  std::vector<ArgumentFamilyRows> families;  ///< Those that are not among the flags yet.
  /// Every row, and the flag that takes it.
  std::vector<std::pair<const megatron::ArgumentRow*, const FlagSpec*>> arguments;
  std::function<std::vector<std::string>()> also_missing;  ///< Flags::also_requires()
  bool notes = true;                                       ///< Flags::notes()
  bool complete = false;  ///< --help and its like are among the flags.
};

/// The error of one value of the flag: "expected 1 to 1024, found 0"; empty if there is none.
std::string complaint(const FlagSpec& spec, std::string_view value);

/// Converts values in which complaint() finds nothing wrong, and stores them in the spec's
/// variable.
void store_values(const FlagSpec& spec, const std::vector<std::string>& values);

/// The value of the spec's variable, as text for --help.
std::string current_value(const FlagSpec& spec);

/// The value of the spec's variable, completely; nullopt: the flag is bound to none.
std::optional<megatron::FieldValue> held_value(const FlagSpec& spec);

/// Columns of standard output: COLUMNS, else the terminal's, else 80.
size_t output_columns();

/// The text of --help in so many columns.
std::string help_text(const FlagTable& table, size_t width);

/// The line that shows how to call the program.
std::string usage_line(const FlagTable& table);

}  // namespace meg::tools
