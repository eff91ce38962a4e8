#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tools {

/// One `key = value` of a --config file.
struct ConfigEntry {
  int64_t line;       ///< 1-based; where it begins.
  std::string key;    ///< A flag without its dashes, as written.
  std::string value;  ///< As written, without comment; a list in brackets on one line.
};

/// The entries of a file in what TOML and INI have in common: blank lines, comments after # or (at
/// the start of a line) ;, and `key = value`, where a list in brackets may go over lines.
/// Errors: kInvalidArgument `LINE: ...` for all else, sections among it, and for keys given twice.
Result<std::vector<ConfigEntry>> read_config(std::istream& input);

/// A single value: the text, or what is inside its quotes; in double quotes \" and \\ are known.
Result<std::string> config_text(std::string_view value);

/// A list: values in brackets separated by commas, or by whitespace without brackets.
Result<std::vector<std::string>> config_list(std::string_view value);

}  // namespace meg::tools
