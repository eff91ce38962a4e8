#include "tools/common/flags/command_line.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "libmeg/text/ascii.h"
#include "libmeg/text/printable.h"
#include "tools/common/flags/flag_error.h"

// argparse's reading of a command line (docs/decisions/03-command-lines.md): first it is decided of
// every word by itself whether it looks like a flag, then each flag takes words that do not. So a
// value that begins with a dash needs `=`, and a list runs on to the next flag.
// tests/tools/argparse_test.py compares thousands of command lines with Python's own.

namespace meg::tools {
namespace {

/// Such as -1, -.5 and -1e-3: a value, never a flag.
bool is_negative_number(std::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  return text::is_ascii_digit(text[1]) ||
         (text[1] == '.' && text.size() > 2 && text::is_ascii_digit(text[2]));
}

/// Decides as argparse does: what begins with a dash is a flag unless it is `-`, a negative number
/// or has a space in its name.
bool looks_like_flag(std::string_view text) {
  if (text.size() < 2 || text[0] != '-' || is_negative_number(text)) return false;
  return text.substr(0, text.find('=')).find(' ') == std::string_view::npos;
}

/// A name as typed where that is safe to print.
std::string printable_name(std::string_view typed) {
  const std::string quoted = text::printable(typed);
  return quoted.size() == typed.size() + 2 ? std::string(typed) : quoted;
}

/// One walk over the words.
class CommandLineReader {
 public:
  CommandLineReader(const FlagTable& table, std::span<const std::string_view> words)
      : table_(table), words_(words) {}

  Result<CommandLine> read() {
    while (next_ < words_.size()) {
      const std::string_view word = words_[next_++];
      if (!only_positionals_ && word == "--") {
        only_positionals_ = true;
      } else if (!only_positionals_ && looks_like_flag(word)) {
        MEG_RETURN_IF_ERROR(take_flag(word));
        // Stop as argparse does, which acts on --help when it meets it: what is wrong after it does
        // not matter.
        if (ends_the_program(*line_.flags.back().flag.spec)) break;
      } else {
        line_.positionals.push_back(word);
      }
    }
    return std::move(line_);
  }

 private:
  static bool ends_the_program(const FlagSpec& spec) {
    return spec.use == FlagSpec::Use::kHelp || spec.use == FlagSpec::Use::kVersion ||
           spec.use == FlagSpec::Use::kListArguments;
  }

  Status take_flag(std::string_view word) {
    const size_t equals = word.find('=');
    const std::string_view typed = word.substr(0, equals);
    MEG_ASSIGN_OR_RETURN(const NamedFlag flag, find_one(typed == "-h" ? "--help" : typed));
    FlagUse& use = line_.flags.emplace_back(FlagUse{flag, {}});
    if (equals != std::string_view::npos) use.values.push_back(word.substr(equals + 1));
    return collect_values(*flag.spec, use.values);
  }

  Result<NamedFlag> find_one(std::string_view typed) const {
    const std::vector<NamedFlag> found = find_flags_by_prefix(table_, typed);
    if (found.empty()) return unknown_flag(typed);
    const bool is_exact = same_flag_name(typed, found[0].name);
    if (!is_exact && is_passed_over(*found[0].spec)) return needs_full_name(typed, found);
    if (found.size() == 1) return found[0];
    std::vector<std::string_view> names;
    names.reserve(found.size());
    for (const NamedFlag& flag : found) names.push_back(flag.name);
    return flag_error("ambiguous flag {}: could be {}", typed, fmt::join(names, ", "));
  }

  Status unknown_flag(std::string_view typed) const {
    const FlagSpec* nearest = nearest_flag(table_, typed);
    const std::string hint =
        nearest == nullptr ? "" : fmt::format(": did you mean {}?", nearest->name);
    return flag_error("unknown flag {}{}", printable_name(typed), hint);
  }

  /// A prefix of flags that are not read, most likely meant for one that is: to take it for the
  /// former would lose the value.
  Status needs_full_name(std::string_view typed, const std::vector<NamedFlag>& found) const {
    std::vector<std::string_view> names;
    for (const NamedFlag& flag : found) names.push_back(flag.name);
    const std::vector<std::string_view> like = read_flags_like(table_, typed);
    const std::string hint =
        like.empty() ? "" : fmt::format("did you mean {}? It ", fmt::join(like, ", "));
    return flag_error(
        "unknown flag {}: {}could be {}, but a flag that is not read here needs its full name",
        typed, hint, fmt::join(names, ", "));
  }

  bool value_follows() const {
    return next_ < words_.size() && words_[next_] != "--" && !looks_like_flag(words_[next_]);
  }

  /// values: what stood after `=`, if anything. Adds those that follow; after `--list=value` more
  /// may follow only where they could not be positionals.
  Status collect_values(const FlagSpec& spec, std::vector<std::string_view>& values) {
    if (spec.arity == Arity::kSwitch) {
      if (values.empty()) return Status();
      return flag_error("{}: expected no value, found {}", spec.name, text::printable(values[0]));
    }
    const bool more = spec.arity == Arity::kList && (values.empty() || table_.positionals.empty());
    while (value_follows() && (more || values.empty())) values.push_back(words_[next_++]);
    if (!values.empty() || spec.may_be_empty) return Status();
    const std::string found =
        next_ < words_.size() ? text::printable(words_[next_]) : "the end of the command line";
    const std::string_view what = spec.metavar.empty() ? "VALUE" : std::string_view(spec.metavar);
    return flag_error("{}: expected {}, found {}", spec.name, what, found);
  }

  const FlagTable& table_;
  const std::span<const std::string_view> words_;
  CommandLine line_;
  size_t next_ = 0;
  bool only_positionals_ = false;
};

}  // namespace

Result<CommandLine> read_command_line(const FlagTable& table,
                                      std::span<const std::string_view> words) {
  return CommandLineReader(table, words).read();
}

}  // namespace meg::tools
