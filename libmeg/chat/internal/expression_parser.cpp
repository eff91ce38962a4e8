#include "libmeg/chat/internal/expression_parser.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "libmeg/text/json/python_float.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

std::string shown(const Token& token) {
  switch (token.type) {
    case Token::Type::kEnd:
      return "the end of the template";
    case Token::Type::kBlockEnd:
      return "%}";
    case Token::Type::kVariableEnd:
      return "}}";
    case Token::Type::kData:
      return "text";
    default:
      return text::printable(token.text);
  }
}

}  // namespace

Status ExpressionParser::error(std::string_view expected) const {
  return make_error(StatusCode::kInvalidArgument, "line {}: expected {}, found {}", current().line,
                    expected, shown(current()));
}

Status ExpressionParser::unsupported(const Token& token) const {
  return make_error(StatusCode::kUnsupported, "line {}: {} is not supported", token.line,
                    text::printable(token.text));
}

bool ExpressionParser::ends_tuple(const Names& ends) const {
  return current().type == Type::kVariableEnd || current().type == Type::kBlockEnd ||
         current().type == Type::kEnd || current().is_operator(")") ||
         (current().type == Type::kName && std::ranges::find(ends, current().text) != ends.end());
}

Result<NodePtr> ExpressionParser::parse_tuple(bool with_conditional, const Names& ends,
                                              bool may_be_empty) {
  NodePtr tuple = make(Kind::kTuple);
  bool is_tuple = false;
  while (!ends_tuple(ends)) {
    MEG_ASSIGN_OR_RETURN(NodePtr item, with_conditional ? parse_expression() : parse_or());
    tuple->children.push_back(std::move(item));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !tuple->children.empty()) return std::move(tuple->children[0]);
  if (tuple->children.empty() && !may_be_empty) return error("an expression");
  return tuple;
}

Result<NodePtr> ExpressionParser::parse_expression() {
  const Nested nested(*this);
  if (nested.is_too_deep()) return error("less nesting");
  MEG_ASSIGN_OR_RETURN(NodePtr value, parse_or());
  while (current().is_name("if")) {
    MEG_RETURN_IF_ERROR(add_link());
    NodePtr node = make(Kind::kConditional);
    ++at_;
    MEG_ASSIGN_OR_RETURN(NodePtr test, parse_or());
    NodePtr other;
    if (skip_name("else")) {
      MEG_ASSIGN_OR_RETURN(other, parse_expression());
    }
    node->children.push_back(std::move(test));
    node->children.push_back(std::move(value));
    node->children.push_back(std::move(other));
    value = std::move(node);
  }
  return value;
}

template <class ParseNext>
Result<NodePtr> ExpressionParser::parse_logical(Kind kind, std::string_view name,
                                                ParseNext&& parse_next) {
  MEG_ASSIGN_OR_RETURN(NodePtr left, parse_next());
  while (current().is_name(name)) {
    MEG_RETURN_IF_ERROR(add_link());
    NodePtr node = make(kind);
    ++at_;
    MEG_ASSIGN_OR_RETURN(NodePtr right, parse_next());
    left = with_children(std::move(node), std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> ExpressionParser::parse_or() {
  return parse_logical(Kind::kOr, "or", [this] {
    return parse_logical(Kind::kAnd, "and", [this] { return parse_not(); });
  });
}

Result<NodePtr> ExpressionParser::parse_not() {
  const Nested nested(*this);
  if (nested.is_too_deep()) return error("less nesting");
  if (!current().is_name("not")) return parse_compare();
  NodePtr node = make(Kind::kNot);
  ++at_;
  MEG_ASSIGN_OR_RETURN(NodePtr value, parse_not());
  return with_children(std::move(node), std::move(value));
}

/// The comparison that comes next; empty if none does.
std::string ExpressionParser::take_comparison() {
  constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<", "<=", ">", ">="};
  if (current().type == Type::kOperator &&
      std::ranges::find(kComparisons, current().text) != kComparisons.end()) {
    return take().text;
  }
  if (skip_name("in")) return "in";
  if (current().is_name("not") && after_current().is_name("in")) {
    at_ += 2;
    return "not in";
  }
  return "";
}

Result<NodePtr> ExpressionParser::parse_compare() {
  NodePtr node = make(Kind::kCompare);
  MEG_ASSIGN_OR_RETURN(NodePtr first, parse_sum());
  for (std::string name = take_comparison(); !name.empty(); name = take_comparison()) {
    MEG_ASSIGN_OR_RETURN(NodePtr next, parse_sum());
    if (node->children.empty()) node->children.push_back(std::move(first));
    node->names.push_back(std::move(name));
    node->children.push_back(std::move(next));
  }
  return node->children.empty() ? std::move(first) : std::move(node);
}

template <class ParseNext>
Result<NodePtr> ExpressionParser::parse_binary(const Names& operators, ParseNext&& parse_next) {
  MEG_ASSIGN_OR_RETURN(NodePtr left, parse_next());
  while (current().type == Type::kOperator &&
         std::ranges::find(operators, current().text) != operators.end()) {
    MEG_RETURN_IF_ERROR(add_link());
    NodePtr node = make(Kind::kBinary);
    node->text = take().text;
    MEG_ASSIGN_OR_RETURN(NodePtr right, parse_next());
    left = with_children(std::move(node), std::move(left), std::move(right));
  }
  return left;
}

Result<NodePtr> ExpressionParser::parse_sum() {
  return parse_binary({"+", "-"}, [this] { return parse_concat(); });
}

Result<NodePtr> ExpressionParser::parse_concat() {
  MEG_ASSIGN_OR_RETURN(NodePtr first, parse_product());
  if (!current().is_operator("~")) return first;
  NodePtr node = make(Kind::kConcat);
  node->children.push_back(std::move(first));
  while (skip_operator("~")) {
    MEG_ASSIGN_OR_RETURN(NodePtr next, parse_product());
    node->children.push_back(std::move(next));
  }
  return node;
}

Result<NodePtr> ExpressionParser::parse_product() {
  return parse_binary({"*", "/", "//", "%"}, [this] {
    return parse_binary({"**"}, [this] { return parse_unary(/*with_filters=*/true); });
  });
}

Result<NodePtr> ExpressionParser::parse_unary(bool with_filters) {
  const Nested nested(*this);
  if (nested.is_too_deep()) return error("less nesting");
  NodePtr node;
  if (current().is_operator("-") || current().is_operator("+")) {
    node = make(current().is_operator("-") ? Kind::kNegative : Kind::kPositive);
    ++at_;
    MEG_ASSIGN_OR_RETURN(NodePtr value, parse_unary(/*with_filters=*/false));
    node->children.push_back(std::move(value));
  } else {
    MEG_ASSIGN_OR_RETURN(node, parse_primary());
  }
  MEG_ASSIGN_OR_RETURN(node, parse_postfix(std::move(node)));
  if (!with_filters) return node;
  return parse_filters_and_tests(std::move(node));
}

Result<NodePtr> ExpressionParser::parse_primary() {
  NodePtr node = make(Kind::kLiteral);
  const Token& token = current();
  switch (token.type) {
    case Type::kName:
      if (token.text == "true" || token.text == "True") {
        node->value = Value(true);
      } else if (token.text == "false" || token.text == "False") {
        node->value = Value(false);
      } else if (token.text != "none" && token.text != "None") {
        node->kind = Kind::kName;
        node->text = token.text;
      }
      ++at_;
      return node;
    case Type::kString: {
      std::string text;
      while (current().type == Type::kString) text += take().text;
      node->value = Value::text(std::move(text));
      return node;
    }
    case Type::kInteger: {
      int64_t number = 0;
      const auto [_, failure] =
          std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      if (failure != std::errc()) return error("an integer of 64 bits");
      node->value = Value(number);
      ++at_;
      return node;
    }
    case Type::kFloat: {
      const std::optional<double> number = text::parse_python_float(token.text);
      if (!number) return error("a number");
      node->value = Value(*number);
      ++at_;
      return node;
    }
    default:
      break;
  }
  if (skip_operator("(")) {
    MEG_ASSIGN_OR_RETURN(node, parse_tuple(true, {}, /*may_be_empty=*/true));
    MEG_RETURN_IF_ERROR(expect_operator(")"));
    return node;
  }
  if (skip_operator("[")) return parse_items(std::move(node), Kind::kList, "]");
  if (skip_operator("{")) return parse_items(std::move(node), Kind::kDict, "}");
  return error("an expression");
}

Result<NodePtr> ExpressionParser::parse_items(NodePtr node, Kind kind, std::string_view end) {
  node->kind = kind;
  while (!current().is_operator(end)) {
    if (!node->children.empty()) MEG_RETURN_IF_ERROR(expect_operator(","));
    if (current().is_operator(end)) break;
    MEG_ASSIGN_OR_RETURN(NodePtr item, parse_expression());
    node->children.push_back(std::move(item));
    if (kind != Kind::kDict) continue;
    MEG_RETURN_IF_ERROR(expect_operator(":"));
    MEG_ASSIGN_OR_RETURN(NodePtr value, parse_expression());
    node->children.push_back(std::move(value));
  }
  ++at_;
  return node;
}

Result<NodePtr> ExpressionParser::parse_postfix(NodePtr node) {
  for (;;) {
    MEG_RETURN_IF_ERROR(add_link());
    if (skip_operator(".")) {
      MEG_ASSIGN_OR_RETURN(node, parse_attribute(std::move(node)));
    } else if (skip_operator("[")) {
      MEG_ASSIGN_OR_RETURN(node, parse_item(std::move(node)));
    } else if (current().is_operator("(")) {
      MEG_ASSIGN_OR_RETURN(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<NodePtr> ExpressionParser::parse_attribute(NodePtr of) {
  NodePtr node = make(Kind::kAttribute);
  if (current().type == Type::kInteger) {
    node->kind = Kind::kItem;
    MEG_ASSIGN_OR_RETURN(NodePtr index, parse_primary());
    return with_children(std::move(node), std::move(of), std::move(index));
  }
  MEG_ASSIGN_OR_RETURN(node->text, take_name("an attribute"));
  return with_children(std::move(node), std::move(of));
}

/// After the bracket.
Result<NodePtr> ExpressionParser::parse_item(NodePtr of) {
  NodePtr node = make(Kind::kItem);
  std::array<NodePtr, 3> parts;
  size_t part = 0;
  for (;; ++part) {
    if (part == parts.size()) return error("]");
    if (!current().is_operator(":") && !current().is_operator("]")) {
      MEG_ASSIGN_OR_RETURN(parts[part], parse_expression());
    }
    if (!skip_operator(":")) break;
  }
  if (current().is_operator(",")) return error("one index");
  MEG_RETURN_IF_ERROR(expect_operator("]"));
  if (part == 0) {
    if (parts[0] == nullptr) return error("an index");
    return with_children(std::move(node), std::move(of), std::move(parts[0]));
  }
  node->kind = Kind::kSlice;
  node->children.push_back(std::move(of));
  for (NodePtr& one : parts) node->children.push_back(std::move(one));
  return node;
}

/// Adds arguments in brackets to the children and keywords of a node.
Status ExpressionParser::parse_arguments(Node& node) {
  MEG_RETURN_IF_ERROR(expect_operator("("));
  for (bool is_first = true; !current().is_operator(")"); is_first = false) {
    if (!is_first) MEG_RETURN_IF_ERROR(expect_operator(","));
    if (current().is_operator(")")) break;
    if (current().is_operator("*") || current().is_operator("**")) return unsupported(current());
    if (current().type == Type::kName && after_current().is_operator("=")) {
      std::string name = take().text;
      ++at_;
      MEG_ASSIGN_OR_RETURN(NodePtr value, parse_expression());
      node.keywords.emplace_back(std::move(name), std::move(value));
      continue;
    }
    if (!node.keywords.empty()) return error("a keyword argument");
    MEG_ASSIGN_OR_RETURN(NodePtr value, parse_expression());
    node.children.push_back(std::move(value));
  }
  return expect_operator(")");
}

Result<NodePtr> ExpressionParser::parse_call(NodePtr of) {
  NodePtr node = with_children(make(Kind::kCall), std::move(of));
  MEG_RETURN_IF_ERROR(parse_arguments(*node));
  return node;
}

Result<NodePtr> ExpressionParser::parse_filters_and_tests(NodePtr node) {
  for (;;) {
    MEG_RETURN_IF_ERROR(add_link());
    if (current().is_operator("|")) {
      MEG_ASSIGN_OR_RETURN(node, parse_filters(std::move(node)));
    } else if (current().is_name("is")) {
      MEG_ASSIGN_OR_RETURN(node, parse_test(std::move(node)));
    } else if (current().is_operator("(")) {
      MEG_ASSIGN_OR_RETURN(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<NodePtr> ExpressionParser::parse_filters(NodePtr node, bool first_is_open) {
  while (first_is_open || skip_operator("|")) {
    first_is_open = false;
    MEG_RETURN_IF_ERROR(add_link());
    NodePtr filter = make(Kind::kFilter);
    MEG_ASSIGN_OR_RETURN(filter->text, take_name("a filter"));
    filter->children.push_back(std::move(node));
    if (current().is_operator("(")) MEG_RETURN_IF_ERROR(parse_arguments(*filter));
    node = std::move(filter);
  }
  return node;
}

Result<NodePtr> ExpressionParser::parse_test(NodePtr of) {
  NodePtr node = make(Kind::kTest);
  ++at_;
  const bool is_negated = skip_name("not");
  MEG_ASSIGN_OR_RETURN(node->text, take_name("a test"));
  node->children.push_back(std::move(of));
  const Token& next = current();
  const bool is_word =
      next.type == Type::kName && next.text != "else" && next.text != "or" && next.text != "and";
  if (next.is_operator("(")) {
    MEG_RETURN_IF_ERROR(parse_arguments(*node));
  } else if (is_word || next.type == Type::kString || next.type == Type::kInteger ||
             next.type == Type::kFloat || next.is_operator("[") || next.is_operator("{")) {
    if (next.text == "is" && is_word) return error("one test at a time");
    MEG_ASSIGN_OR_RETURN(NodePtr argument, parse_primary());
    MEG_ASSIGN_OR_RETURN(argument, parse_postfix(std::move(argument)));
    node->children.push_back(std::move(argument));
  }
  if (!is_negated) return node;
  return with_children(make(Kind::kNot), std::move(node));
}

}  // namespace meg::chat
