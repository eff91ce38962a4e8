#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "libmeg/chat/internal/expression_parser.h"
#include "libmeg/chat/internal/template_lexer.h"
#include "libmeg/chat/internal/template_syntax.h"

namespace meg::chat {
namespace {

/// Reads statements.
class Parser : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Result<std::vector<NodePtr>> parse() {
    std::vector<NodePtr> nodes;
    MEG_RETURN_IF_ERROR(parse_body({}, nodes));
    return nodes;
  }

 private:
  /// Statements up to a tag of one of `ends` (before its name), or up to the end where there are
  /// none.
  Status parse_body(const Names& ends, std::vector<NodePtr>& nodes) {
    const Nested nested(*this);
    if (nested.is_too_deep()) return error("less nesting");
    for (;;) {
      const Token token = take();
      begin_tag();
      if (token.type == Type::kEnd) {
        return ends.empty() ? Status() : error(fmt::format("{{% {} %}}", ends.back()));
      }
      if (token.type == Type::kData) {
        nodes.push_back(std::make_unique<Node>(
            Node{.kind = Kind::kData, .line = token.line, .text = token.text}));
      } else if (token.type == Type::kVariableBegin) {
        NodePtr print = make(Kind::kPrint);
        MEG_ASSIGN_OR_RETURN(NodePtr value, parse_tuple());
        if (current().type != Type::kVariableEnd) return error("}}");
        skip();
        nodes.push_back(with_children(std::move(print), std::move(value)));
      } else {
        if (current().type == Type::kName &&
            std::ranges::find(ends, current().text) != ends.end()) {
          return {};
        }
        MEG_ASSIGN_OR_RETURN(NodePtr statement, parse_statement());
        nodes.push_back(std::move(statement));
      }
    }
  }

  /// A body and the tag that ends it.
  Status parse_whole_body(std::string_view end, std::vector<NodePtr>& nodes) {
    MEG_RETURN_IF_ERROR(expect_block_end());
    MEG_RETURN_IF_ERROR(parse_body({end}, nodes));
    skip();
    // {% endmacro name %} is allowed.
    if (end == "endmacro" && current().type == Type::kName) skip();
    return expect_block_end();
  }

  Result<NodePtr> parse_statement() {
    constexpr std::array<std::string_view, 8> kOfJinja = {
        "autoescape", "block", "do", "extends", "from", "import", "include", "trans"};
    const Token& token = current();
    if (token.type != Type::kName) return error("a statement");
    if (token.text == "if") return parse_if();
    if (token.text == "for") return parse_for();
    if (token.text == "set") return parse_set();
    if (token.text == "macro") return parse_macro();
    if (token.text == "call") return parse_call_block();
    if (token.text == "filter") return parse_filter_block();
    if (token.text == "with") return parse_with();
    if (token.text == "generation") {
      NodePtr node = make(Kind::kGeneration);
      skip();
      MEG_RETURN_IF_ERROR(parse_whole_body("endgeneration", node->body));
      return node;
    }
    if (token.text == "break" || token.text == "continue") {
      if (loops_ == 0) return error("break and continue only inside a loop");
      NodePtr node = make(token.text == "break" ? Kind::kBreak : Kind::kContinue);
      skip();
      MEG_RETURN_IF_ERROR(expect_block_end());
      return node;
    }
    if (std::ranges::find(kOfJinja, token.text) != kOfJinja.end()) return unsupported(token);
    return error("a statement");
  }

  Result<NodePtr> parse_if() {
    NodePtr node = make(Kind::kIf);
    skip();
    MEG_ASSIGN_OR_RETURN(NodePtr test, parse_tuple(/*with_conditional=*/false));
    node->children.push_back(std::move(test));
    MEG_RETURN_IF_ERROR(expect_block_end());
    MEG_RETURN_IF_ERROR(parse_body({"elif", "else", "endif"}, node->body));
    if (current().is_name("elif")) {
      const Nested nested(*this);
      if (nested.is_too_deep()) return error("fewer elif");
      MEG_ASSIGN_OR_RETURN(NodePtr other, parse_if());
      node->otherwise.push_back(std::move(other));
      return node;
    }
    if (skip_name("else")) {
      MEG_RETURN_IF_ERROR(parse_whole_body("endif", node->otherwise));
      return node;
    }
    skip();
    MEG_RETURN_IF_ERROR(expect_block_end());
    return node;
  }

  Result<NodePtr> parse_for() {
    NodePtr node = make(Kind::kFor);
    skip();
    MEG_ASSIGN_OR_RETURN(NodePtr target, parse_target({"in"}));
    if (!skip_name("in")) return error("in");
    MEG_ASSIGN_OR_RETURN(NodePtr iterated, parse_tuple(/*with_conditional=*/false, {"recursive"}));
    NodePtr filter;
    if (skip_name("if")) {
      MEG_ASSIGN_OR_RETURN(filter, parse_expression());
    }
    if (current().is_name("recursive")) return unsupported(current());
    node->children.push_back(std::move(target));
    node->children.push_back(std::move(iterated));
    node->children.push_back(std::move(filter));
    MEG_RETURN_IF_ERROR(expect_block_end());
    ++loops_;
    const size_t begin = position();
    MEG_RETURN_IF_ERROR(parse_body({"else", "endfor"}, node->body));
    node->names_loop = has_name_since(begin, "loop");
    --loops_;
    if (skip_name("else")) {
      MEG_RETURN_IF_ERROR(parse_whole_body("endfor", node->otherwise));
      return node;
    }
    skip();
    MEG_RETURN_IF_ERROR(expect_block_end());
    return node;
  }

  Result<NodePtr> parse_set() {
    NodePtr node = make(Kind::kSet);
    skip();
    NodePtr target;
    if (after_current().is_operator(".") && current().type == Type::kName) {
      target = make(Kind::kAttribute);
      NodePtr name = make(Kind::kName);
      name->text = take().text;
      skip();
      MEG_ASSIGN_OR_RETURN(target->text, take_name("an attribute"));
      target->children.push_back(std::move(name));
    } else {
      MEG_ASSIGN_OR_RETURN(target, parse_target({}));
    }
    node->children.push_back(std::move(target));
    if (skip_operator("=")) {
      MEG_ASSIGN_OR_RETURN(NodePtr value, parse_tuple());
      node->children.push_back(std::move(value));
      MEG_RETURN_IF_ERROR(expect_block_end());
      return node;
    }
    node->kind = Kind::kSetBlock;
    MEG_ASSIGN_OR_RETURN(NodePtr filter, parse_filters(nullptr));
    node->children.push_back(std::move(filter));
    MEG_RETURN_IF_ERROR(parse_whole_body("endset", node->body));
    return node;
  }

  /// (a, b=1): names, and the defaults of the last ones.
  Status parse_parameters(Node& node) {
    MEG_RETURN_IF_ERROR(expect_operator("("));
    bool has_default = false;
    while (!current().is_operator(")")) {
      if (!node.names.empty()) MEG_RETURN_IF_ERROR(expect_operator(","));
      if (current().is_operator(")")) break;
      MEG_ASSIGN_OR_RETURN(std::string name, take_name("a parameter"));
      node.names.push_back(std::move(name));
      if (skip_operator("=")) {
        has_default = true;
        MEG_ASSIGN_OR_RETURN(NodePtr value, parse_expression());
        node.children.push_back(std::move(value));
      } else if (has_default) {
        return error("a default, as the parameter before has one");
      }
    }
    return expect_operator(")");
  }

  Result<NodePtr> parse_macro() {
    NodePtr node = make(Kind::kMacro);
    skip();
    MEG_ASSIGN_OR_RETURN(node->text, take_name("the name of a macro"));
    MEG_RETURN_IF_ERROR(parse_parameters(*node));
    return with_own_body(std::move(node), "endmacro");
  }

  /// A body that loops around it do not reach.
  Result<NodePtr> with_own_body(NodePtr node, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    MEG_RETURN_IF_ERROR(parse_whole_body(end, node->body));
    loops_ = loops;
    return node;
  }

  Result<NodePtr> parse_call_block() {
    NodePtr node = make(Kind::kCallBlock);
    skip();
    node->children.push_back(nullptr);
    if (current().is_operator("(")) MEG_RETURN_IF_ERROR(parse_parameters(*node));
    MEG_ASSIGN_OR_RETURN(node->children[0], parse_expression());
    if (node->children[0]->kind != Kind::kCall) return error("a call");
    return with_own_body(std::move(node), "endcall");
  }

  Result<NodePtr> parse_filter_block() {
    NodePtr node = make(Kind::kFilterBlock);
    skip();
    MEG_ASSIGN_OR_RETURN(NodePtr filter, parse_filters(nullptr, /*first_is_open=*/true));
    node->children.push_back(std::move(filter));
    MEG_RETURN_IF_ERROR(parse_whole_body("endfilter", node->body));
    return node;
  }

  Result<NodePtr> parse_with() {
    NodePtr node = make(Kind::kWith);
    skip();
    while (current().type != Type::kBlockEnd) {
      if (!node->children.empty()) MEG_RETURN_IF_ERROR(expect_operator(","));
      MEG_ASSIGN_OR_RETURN(NodePtr target, parse_target({}));
      MEG_RETURN_IF_ERROR(expect_operator("="));
      MEG_ASSIGN_OR_RETURN(NodePtr value, parse_expression());
      node->children.push_back(std::move(target));
      node->children.push_back(std::move(value));
    }
    MEG_RETURN_IF_ERROR(parse_whole_body("endwith", node->body));
    return node;
  }

  /// A name, or several with commas between them and brackets around.
  Result<NodePtr> parse_target(const Names& ends) {
    NodePtr tuple = make(Kind::kTuple);
    bool is_tuple = false;
    while (!ends_tuple(ends) && !current().is_operator("=")) {
      if (skip_operator("(")) {
        MEG_ASSIGN_OR_RETURN(NodePtr inner, parse_target({}));
        MEG_RETURN_IF_ERROR(expect_operator(")"));
        tuple->children.push_back(std::move(inner));
      } else {
        NodePtr name = make(Kind::kName);
        MEG_ASSIGN_OR_RETURN(name->text, take_name("a name"));
        if (is_constant(name->text)) return error("a name that may be set");
        tuple->children.push_back(std::move(name));
      }
      if (!skip_operator(",")) break;
      is_tuple = true;
    }
    if (tuple->children.empty()) return error("a name");
    if (!is_tuple) return std::move(tuple->children[0]);
    return tuple;
  }

  static bool is_constant(std::string_view name) {
    return name == "true" || name == "false" || name == "none" || name == "True" ||
           name == "False" || name == "None";
  }

  int loops_ = 0;  ///< Around the current statement.
};

}  // namespace

Result<std::vector<NodePtr>> parse_template(std::string_view source) {
  MEG_ASSIGN_OR_RETURN(std::vector<Token> tokens, read_tokens(source));
  return Parser(std::move(tokens)).parse();
}

}  // namespace meg::chat
