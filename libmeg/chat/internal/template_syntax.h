#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/chat/internal/value.h"

namespace meg::chat {

struct Node;
using NodePtr = std::unique_ptr<Node>;

/// A statement or an expression of a template.
struct Node {
  enum class Kind {
    // Expressions.
    kLiteral,    ///< value
    kName,       ///< text
    kList,       ///< children
    kTuple,      ///< children
    kDict,       ///< keys and values in turn
    kAttribute,  ///< children[0] . text
    kItem,       ///< children[0] [ children[1] ]
    kSlice,      ///< begin, end, step, each may be null
    kCall,       ///< children[0] is called with the others and keywords
    kFilter,     ///< children[0] | text (others, keywords); children[0] is null in filter blocks
    kTest,       ///< children[0] is text (others)
    kNot,
    kNegative,
    kPositive,
    kBinary,   ///< children[0] text children[1]
    kCompare,  ///< children; names[i] is the operator before child i + 1
    kAnd,
    kOr,
    kConcat,
    kConditional,  ///< test, then, else (may be null)
    // Statements.
    kData,         ///< text
    kPrint,        ///< children[0]
    kIf,           ///< children[0]; body, otherwise
    kFor,          ///< target, iterated, filter (may be null); body (names_loop), otherwise
    kSet,          ///< target, value
    kSetBlock,     ///< target, filter (may be null); body
    kMacro,        ///< text (names: parameters; children: defaults of the last ones); body
    kCallBlock,    ///< children[0] a kCall; names, children[1...]: parameters as of kMacro; body
    kFilterBlock,  ///< children[0]: filters; body
    kWith,         ///< targets and values in turn; body
    kGeneration,   ///< body: what the assistant says
    kBreak,
    kContinue,
  };

  Kind kind;
  int line;
  std::string text = {};
  Value value = {};
  std::vector<NodePtr> children = {};
  std::vector<std::pair<std::string, NodePtr>> keywords = {};
  std::vector<std::string> names = {};
  std::vector<NodePtr> body = {};
  std::vector<NodePtr> otherwise = {};
  bool names_loop = false;  ///< Whether the body has the name `loop`.
};

/// The statements of a template. What Jinja has and this does not (blocks, include, import, extends
/// ...) is refused by name. Errors begin with the line.
/// Mirrors jinja2/parser.py: Parser.
Result<std::vector<NodePtr>> parse_template(std::string_view source);

}  // namespace meg::chat
