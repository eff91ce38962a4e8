#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tools/common/flags/flag_spec.h"
#include "tools/common/terminal_columns.h"

namespace meg::tools {
namespace {

// Below the fewest columns the text beside the flags, which begins at kHelpColumn, would be a word
// a line.
constexpr size_t kFewestColumns = 50;
constexpr size_t kHelpColumn = 30;

/// `text` broken into lines at spaces so that, from column `indent` on, none passes `width`; each
/// line but the last ends with `line_end`, which may pass it.
std::string wrapped(std::string_view text, size_t indent, size_t width,
                    std::string_view line_end = "") {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (column > indent && column + 1 + word.size() > width) {
      out += fmt::format("{}\n{:{}}", line_end, "", indent);
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return out;
}

std::string with_metavar(const FlagSpec& spec) {
  return spec.metavar.empty() ? spec.name : spec.name + " " + spec.metavar;
}

std::string notes_about(const FlagSpec& spec) {
  std::string notes;
  if (!spec.listed().empty()) notes += fmt::format(" {{{}}}", fmt::join(spec.listed(), ", "));
  if (spec.required && spec.use == FlagSpec::Use::kBound) notes += " (required)";
  if (!spec.default_text.empty() && !spec.required) {
    notes += fmt::format(" (default: {})", spec.default_text);
  }
  return notes;
}

/// Megatron's flags that the program does not read have paragraphs of their own.
bool is_listed(const FlagSpec& spec) {
  switch (spec.use) {
    case FlagSpec::Use::kNotYet:
    case FlagSpec::Use::kPassed:
    case FlagSpec::Use::kRefused:
      return false;
    default:
      return true;
  }
}

std::string entry(const FlagSpec& spec, size_t width) {
  std::string line = "  " + with_metavar(spec);
  line += line.size() + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ')
                                        : std::string(kHelpColumn - line.size(), ' ');
  return line + wrapped(spec.help + notes_about(spec), kHelpColumn, width) + "\n";
}

/// The flags that a person can choose among, under their topics.
std::string groups(const FlagTable& table, size_t width) {
  std::string text;
  std::vector<std::string_view> titles;
  for (const auto& spec : table.flags) {
    if (!is_listed(*spec) || std::find(titles.begin(), titles.end(), spec->group) != titles.end())
      continue;
    titles.push_back(spec->group);
    text += "\n" + spec->group + "\n";
    // Go by the order in which groups first come, not by that of the flags: Megatron's rows of one
    // topic stand apart in the table.
    for (const auto& other : table.flags) {
      if (is_listed(*other) && other->group == spec->group) text += entry(*other, width);
    }
  }
  return text;
}

bool has(const FlagTable& table, FlagSpec::Use use) {
  return std::any_of(table.flags.begin(), table.flags.end(),
                     [use](const auto& spec) { return spec->use == use; });
}

std::string paragraph(std::string_view text, size_t width) {
  return "\n" + wrapped(text, 0, width) + "\n";
}

std::string unsupported_flags(const FlagTable& table, size_t width) {
  std::vector<std::string_view> names;
  for (const auto& spec : table.flags) {
    if (spec->use == FlagSpec::Use::kNotYet) names.push_back(spec->name);
  }
  if (names.empty()) return "";
  return paragraph("Flags not supported yet", width) + "  " +
         wrapped(fmt::format("{}", fmt::join(names, " ")), 2, width) + "\n";
}

/// Commands over as many lines as they take, to be copied as they stand.
std::string examples(const FlagTable& table, size_t width) {
  constexpr size_t kIndent = 4;
  constexpr std::string_view kContinued = " \\";
  std::string text = table.examples.empty() ? "" : "\nexamples:\n";
  for (const std::string& command : table.examples) {
    text += "  " + wrapped(command, kIndent, width - kContinued.size(), kContinued) + "\n";
  }
  return text;
}

}  // namespace

size_t output_columns() {
  const char* columns = std::getenv("COLUMNS");
  const std::string_view text = columns == nullptr ? "" : columns;
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool valid = error == std::errc() && end == text.data() + text.size() && number > 0;
  return std::max(valid ? number : terminal_columns(STDOUT_FILENO), kFewestColumns);
}

std::string usage_line(const FlagTable& table) {
  std::string line = "usage: " + table.program;
  for (const auto& spec : table.positionals) {
    line += spec->required ? " " + spec->name : " [" + spec->name + "]";
  }
  for (const auto& spec : table.flags) {
    if (spec->required) line += " " + with_metavar(*spec);
  }
  if (!table.needed.empty()) line += " " + table.needed;
  return line + " [flags]";
}

std::string help_text(const FlagTable& table, size_t width) {
  const std::string title = table.program + ": ";
  const std::string usage = "usage: " + table.program + " ";
  std::string text = title + wrapped(table.summary, title.size(), width) + "\n";
  text +=
      "\n" + usage + wrapped(usage_line(table).substr(usage.size()), usage.size(), width) + "\n";
  if (!table.positionals.empty()) text += "\n";
  for (const auto& spec : table.positionals) text += entry(*spec, width);
  text += groups(table, width);
  text += unsupported_flags(table, width);
  if (has(table, FlagSpec::Use::kPassed) || has(table, FlagSpec::Use::kRefused)) {
    text += paragraph(
        "Megatron's other flags are known too: those that make no difference here are accepted "
        "with a note, the others are errors unless given their default value. --list-arguments "
        "prints which.",
        width);
  }
  return text + examples(table, width);
}

}  // namespace meg::tools
