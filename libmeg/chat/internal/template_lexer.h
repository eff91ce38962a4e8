#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::chat {

struct Token {
  enum class Type {
    kData,           ///< Text between tags, to be printed.
    kVariableBegin,  ///< {{
    kVariableEnd,    ///< }}
    kBlockBegin,     ///< {%
    kBlockEnd,       ///< %}
    kName,
    kString,  ///< Without quotes and escapes.
    kInteger,
    kFloat,
    kOperator,
    kEnd,  ///< Of the template.
  };

  Type type;
  std::string text;
  int line;  ///< From 1.

  bool is(Type of_type, std::string_view with_text) const {
    return type == of_type && text == with_text;
  }

  bool is_operator(std::string_view name) const { return is(Type::kOperator, name); }

  bool is_name(std::string_view name) const { return is(Type::kName, name); }
};

/// The tokens of a template, the last of which is kEnd. Tags are Jinja's own, with trim_blocks and
/// lstrip_blocks on, as transformers sets them. Errors begin with the line.
/// Mirrors jinja2/lexer.py: Lexer.
Result<std::vector<Token>> read_tokens(std::string_view source);

}  // namespace meg::chat
