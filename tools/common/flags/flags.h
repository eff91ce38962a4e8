#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/argument_values.h"

namespace meg::tools {

struct FlagSpec;
struct FlagTable;

/// How many arguments follow a flag: none, one, or all up to the next flag.
enum class Arity { kSwitch, kValue, kList };

/// The variable that a flag's value goes to; it must live as long as the Flags.
using ValueTarget = std::variant<std::string*, int64_t*, double*, std::optional<std::string>*,
                                 std::optional<int64_t>*, std::optional<double>*>;

/// Properties of a declared flag; valid as long as its Flags.
class Flag {
 public:
  explicit Flag(FlagSpec* spec) : spec_(spec) {}

  /// A command line without this flag is a usage error.
  Flag& required();

  /// Its name in older revisions of Megatron: accepted with a note.
  Flag& old_name(std::string name);

  /// Integers only: both ends are allowed values.
  Flag& range(int64_t min, int64_t max);

  /// Reals only: both ends are allowed values; NaN never is.
  Flag& real_range(double min, double max);

  /// Strings and lists of strings: the only allowed values.
  Flag& choices(std::vector<std::string> allowed);

  /// Positionals only: may be left out.
  Flag& optional();

 private:
  FlagSpec* spec_;
};

/// What one program does with the arguments of Megatron's table. The texts must outlive the Flags.
struct ArgumentScope {
  /// Fields (dest) that the program reads. What the table has no help for is not offered: a field
  /// that is read only to be refused, such as num_experts.
  std::vector<std::string> reads;
  std::vector<std::string_view> required;  ///< Those of them that a command line must give.

  /// The effects that do not matter to the program, each with the reason: {Effect::kSchedule,
  /// "nothing is trained here"}. kNone never matters.
  std::map<megatron::Effect, std::string_view> idle;

  /// The same for single fields: {"save", "nothing is saved here"}.
  std::map<std::string_view, std::string_view> idle_fields;
};

/// The command line of one program, as argparse users expect it.
///
/// Flags are bound to variables: the value of a variable when its flag is declared is the default,
/// which `--help` shows. Accepted are `--flag value`, `--flag=value`, `--a-b` as `--a_b`, any
/// unique prefix of a name, `-` and negative numbers as values, and `--` before positional
/// arguments that begin with a dash. If a flag occurs twice, the last one wins, also for lists.
/// Lists extend to the next flag. Names are written with their leading dashes, such as
/// "--output-prefix".
///
/// Every program has --help, --version and --config FILE, whose lines `output-prefix = PATH` give
/// flags that the command line does not (docs/command_line.md).
class Flags {
 public:
  /// program: as typed, such as "preprocess_data" or "verify dataset".
  Flags(std::string program, std::string summary);
  ~Flags();

  /// Additional text of the usage line: flags that are required unless others replace them.
  void usage(std::string needed);

  /// Commands with which --help ends, as typed.
  void examples(std::vector<std::string> commands);

  /// The topic under which --help lists the flags declared from here on.
  void group(std::string title);

  /// A flag with one value. metavar: how --help calls the value, such as "FILE". An empty optional
  /// stays empty where the flag is not given.
  Flag value(std::string name, ValueTarget target, std::string metavar, std::string help);

  /// A flag with one value or more.
  Flag list(std::string name, std::vector<std::string>* target, std::string metavar,
            std::string help);

  /// A flag without value that makes *target true.
  Flag toggle(std::string name, bool* target, std::string help);

  /// The next argument that belongs to no flag; required unless optional().
  Flag positional(std::string name, std::string* target, std::string help);

  /// All arguments from here on that belong to no flag; at least one unless optional().
  Flag positional_list(std::string name, std::vector<std::string>* target, std::string help);

  /// A flag of Megatron that this program does not support yet: an error with exit code 1, because
  /// the command line itself is correct.
  void not_yet(std::string name, Arity arity);

  /// Takes every flag of `rows`, by row:
  /// - the program reads its field: the value goes to `values`, and --help shows the flag
  /// - kNone, or an effect that is idle in `scope`: taken, with a note that says why
  /// - else an error with exit code 1, unless the value is the default.
  /// All values are checked by type, choices and range, and stored in `values`, which gets the
  /// defaults now (fields set before keep their value, as this program's default) and must live as
  /// long as the Flags. Where the program declares a flag by the functions above, the row is passed
  /// over, and its other names mean the program's flag. May be called once for each family; of
  /// equal flags the first counts.
  void arguments(std::span<const megatron::ArgumentRow> rows, const ArgumentScope& scope,
                 megatron::ArgumentValues* values);

  /// Names of further flags that are missing, such as "--a or --b", by the values that parse() has
  /// stored. Called by parse(), which reports them with those that are required().
  void also_requires(std::function<std::vector<std::string>()> missing);

  /// Whether parse() reports what is ignored. Of several ranks one does, for all of them.
  void notes(bool wanted);

  /// Fills the bound variables. An exit code where the program should end now: 0 after --help,
  /// --list-arguments or --version (printed to `out`), 2 after a usage error, 1 after flags that
  /// are not supported yet (errors and notes go to `err`, the error last). All that is required and
  /// missing is named at once.
  [[nodiscard]] std::optional<int> parse(int argc, const char* const* argv, std::ostream& out,
                                         std::ostream& err);

  /// The same with standard output and standard error.
  [[nodiscard]] std::optional<int> parse(int argc, const char* const* argv);

  /// What ranks of one run must have alike: the program with its version, then a line for each flag
  /// and positional with the value that its variable holds now. Every flag is in it, Megatron's and
  /// the program's own, except the rows that ranks have their own value of
  /// (FlagSpec::of_each_rank).
  std::string settings() const;

 private:
  std::unique_ptr<FlagTable> table_;
};

}  // namespace meg::tools
