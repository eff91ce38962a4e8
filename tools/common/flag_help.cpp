#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/flag_spec.h"

namespace meg::tools {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kHelpColumn = 30;

/// `text` broken into lines at spaces so that, from column `indent` on, none passes kWidth.
std::string wrapped(std::string_view text, size_t indent) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
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
  if (!spec.choices.empty()) notes += fmt::format(" {{{}}}", fmt::join(spec.choices, ", "));
  if (spec.required && spec.use == FlagSpec::Use::kBound) notes += " (required)";
  if (!spec.default_text.empty()) notes += fmt::format(" (default: {})", spec.default_text);
  return notes;
}

/// Megatron's flags without effect have a paragraph of their own.
bool is_listed(const FlagSpec& spec) {
  return spec.use != FlagSpec::Use::kIgnored && spec.use != FlagSpec::Use::kOther &&
         spec.use != FlagSpec::Use::kNotYet;
}

std::string entry(const FlagSpec& spec) {
  std::string line = "  " + with_metavar(spec);
  line += line.size() + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ')
                                        : std::string(kHelpColumn - line.size(), ' ');
  return line + wrapped(spec.help + notes_about(spec), kHelpColumn) + "\n";
}

/// One paragraph naming every flag of Megatron's that is used so; empty where there is none.
std::string megatron_flags(const FlagTable& table, FlagSpec::Use use, std::string_view title) {
  std::vector<std::string_view> names;
  for (const auto& spec : table.flags) {
    if (spec->use == use) names.push_back(spec->name);
  }
  if (names.empty()) return "";
  return fmt::format("\n{}\n  {}\n", title, wrapped(fmt::format("{}", fmt::join(names, " ")), 2));
}

}  // namespace

std::string usage_line(const FlagTable& table) {
  std::string line = "usage: " + table.program;
  for (const auto& spec : table.positionals) {
    line += spec->required ? " " + spec->name : " [" + spec->name + "]";
  }
  for (const auto& spec : table.flags) {
    if (spec->required) line += " " + with_metavar(*spec);
  }
  return line + " [flags]";
}

std::string help_text(const FlagTable& table) {
  std::string text = table.program + ": " + wrapped(table.summary, table.program.size() + 2);
  text += "\n\n" + usage_line(table) + "\n";
  if (!table.positionals.empty()) text += "\n";
  for (const auto& spec : table.positionals) text += entry(*spec);
  std::vector<std::string_view> titles;
  for (const auto& spec : table.flags) {
    if (!is_listed(*spec) || std::find(titles.begin(), titles.end(), spec->group) != titles.end())
      continue;
    titles.push_back(spec->group);
    text += "\n" + spec->group + "\n";
    for (const auto& other : table.flags) {
      if (is_listed(*other) && other->group == spec->group) text += entry(*other);
    }
  }
  text += megatron_flags(table, FlagSpec::Use::kIgnored,
                         "Megatron's flags that make no difference here (taken with a note)");
  const bool others = std::any_of(table.flags.begin(), table.flags.end(), [](const auto& spec) {
    return spec->use == FlagSpec::Use::kOther;
  });
  if (others) {
    text += "\nAll other flags of Megatron's trainer are taken too and make no difference here.\n";
  }
  text += megatron_flags(table, FlagSpec::Use::kNotYet, "Megatron's flags not supported yet");
  return text;
}

}  // namespace meg::tools
