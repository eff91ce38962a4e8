#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "libmeg/chat/internal/template_lexer.h"
#include "libmeg/chat/internal/template_syntax.h"
#include "libmeg/text/json/python_float.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

using Kind = Node::Kind;
using Type = Token::Type;
using Names = std::vector<std::string_view>;

/// Expressions and statements inside each other, so that the stack is not exhausted.
constexpr int kMaxNesting = 200;
/// Operators of one level in one tag: a + b + c is ((a + b) + c).
constexpr int kMaxLinks = 5000;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<std::vector<NodePtr>> parse() {
    std::vector<NodePtr> nodes;
    MEG_RETURN_IF_ERROR(parse_body({}, nodes));
    return nodes;
  }

 private:
  // ---- tokens

  const Token& current() const { return tokens_[at_]; }

  const Token& after_current() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }

  Token take() {
    Token token = current();
    if (token.type != Type::kEnd) ++at_;
    return token;
  }

  bool skip_operator(std::string_view name) {
    if (!current().is_operator(name)) return false;
    ++at_;
    return true;
  }

  bool skip_name(std::string_view name) {
    if (!current().is_name(name)) return false;
    ++at_;
    return true;
  }

  static std::string shown(const Token& token) {
    switch (token.type) {
      case Type::kEnd:
        return "the end of the template";
      case Type::kBlockEnd:
        return "%}";
      case Type::kVariableEnd:
        return "}}";
      case Type::kData:
        return "text";
      default:
        return text::printable(token.text);
    }
  }

  Status error(std::string_view expected) const {
    return make_error(StatusCode::kInvalidArgument, "line {}: expected {}, found {}",
                      current().line, expected, shown(current()));
  }

  Status unsupported(const Token& token) const {
    return make_error(StatusCode::kUnsupported, "line {}: {} is not supported", token.line,
                      text::printable(token.text));
  }

  Status expect_operator(std::string_view name) {
    return skip_operator(name) ? Status() : error(name);
  }

  Status expect_block_end() {
    if (current().type != Type::kBlockEnd) return error("%}");
    ++at_;
    return {};
  }

  Result<std::string> take_name(std::string_view expected) {
    if (current().type != Type::kName) return error(expected);
    return take().text;
  }

  NodePtr make(Kind kind) const {
    return std::make_unique<Node>(Node{.kind = kind, .line = current().line});
  }

  /// Counts operators, each of which encloses those before.
  Status add_link() {
    return ++links_ > kMaxLinks ? error("fewer operators in one tag") : Status();
  }

  static NodePtr with_children(NodePtr node, NodePtr first, NodePtr second = nullptr) {
    node->children.push_back(std::move(first));
    if (second != nullptr) node->children.push_back(std::move(second));
    return node;
  }

  /// Counts nesting while it lives.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) { ++parser_.nesting_; }

    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

    ~Nested() { --parser_.nesting_; }

    bool is_too_deep() const { return parser_.nesting_ > kMaxNesting; }

   private:
    Parser& parser_;
  };

  // ---- statements

  /// Statements up to a tag of one of `ends` (before its name), or up to the end where there are
  /// none.
  Status parse_body(const Names& ends, std::vector<NodePtr>& nodes) {
    const Nested nested(*this);
    if (nested.is_too_deep()) return error("less nesting");
    for (;;) {
      const Token token = take();
      links_ = 0;
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
        ++at_;
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
    ++at_;
    // {% endmacro name %} is allowed.
    if (end == "endmacro" && current().type == Type::kName) ++at_;
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
      ++at_;
      MEG_RETURN_IF_ERROR(parse_whole_body("endgeneration", node->body));
      return node;
    }
    if (token.text == "break" || token.text == "continue") {
      if (loops_ == 0) return error("break and continue only inside a loop");
      NodePtr node = make(token.text == "break" ? Kind::kBreak : Kind::kContinue);
      ++at_;
      MEG_RETURN_IF_ERROR(expect_block_end());
      return node;
    }
    if (std::ranges::find(kOfJinja, token.text) != kOfJinja.end()) return unsupported(token);
    return error("a statement");
  }

  Result<NodePtr> parse_if() {
    NodePtr node = make(Kind::kIf);
    ++at_;
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
    ++at_;
    MEG_RETURN_IF_ERROR(expect_block_end());
    return node;
  }

  Result<NodePtr> parse_for() {
    NodePtr node = make(Kind::kFor);
    ++at_;
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
    MEG_RETURN_IF_ERROR(parse_body({"else", "endfor"}, node->body));
    --loops_;
    if (skip_name("else")) {
      MEG_RETURN_IF_ERROR(parse_whole_body("endfor", node->otherwise));
      return node;
    }
    ++at_;
    MEG_RETURN_IF_ERROR(expect_block_end());
    return node;
  }

  Result<NodePtr> parse_set() {
    NodePtr node = make(Kind::kSet);
    ++at_;
    NodePtr target;
    if (after_current().is_operator(".") && current().type == Type::kName) {
      target = make(Kind::kAttribute);
      NodePtr name = make(Kind::kName);
      name->text = take().text;
      ++at_;
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
    ++at_;
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
    ++at_;
    node->children.push_back(nullptr);
    if (current().is_operator("(")) MEG_RETURN_IF_ERROR(parse_parameters(*node));
    MEG_ASSIGN_OR_RETURN(node->children[0], parse_expression());
    if (node->children[0]->kind != Kind::kCall) return error("a call");
    return with_own_body(std::move(node), "endcall");
  }

  Result<NodePtr> parse_filter_block() {
    NodePtr node = make(Kind::kFilterBlock);
    ++at_;
    MEG_ASSIGN_OR_RETURN(NodePtr filter, parse_filters(nullptr, /*first_is_open=*/true));
    node->children.push_back(std::move(filter));
    MEG_RETURN_IF_ERROR(parse_whole_body("endfilter", node->body));
    return node;
  }

  Result<NodePtr> parse_with() {
    NodePtr node = make(Kind::kWith);
    ++at_;
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

  // ---- expressions, from the weakest operator to the strongest

  bool ends_tuple(const Names& ends) const {
    return current().type == Type::kVariableEnd || current().type == Type::kBlockEnd ||
           current().type == Type::kEnd || current().is_operator(")") ||
           (current().type == Type::kName && std::ranges::find(ends, current().text) != ends.end());
  }

  /// Expressions with commas between them; a single one without a comma is itself.
  Result<NodePtr> parse_tuple(bool with_conditional = true, const Names& ends = {},
                              bool may_be_empty = false) {
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

  Result<NodePtr> parse_expression() {
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
  Result<NodePtr> parse_logical(Kind kind, std::string_view name, ParseNext&& parse_next) {
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

  Result<NodePtr> parse_or() {
    return parse_logical(Kind::kOr, "or", [this] {
      return parse_logical(Kind::kAnd, "and", [this] { return parse_not(); });
    });
  }

  Result<NodePtr> parse_not() {
    const Nested nested(*this);
    if (nested.is_too_deep()) return error("less nesting");
    if (!current().is_name("not")) return parse_compare();
    NodePtr node = make(Kind::kNot);
    ++at_;
    MEG_ASSIGN_OR_RETURN(NodePtr value, parse_not());
    return with_children(std::move(node), std::move(value));
  }

  /// The comparison that comes next; empty if none does.
  std::string take_comparison() {
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

  Result<NodePtr> parse_compare() {
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
  Result<NodePtr> parse_binary(const Names& operators, ParseNext&& parse_next) {
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

  Result<NodePtr> parse_sum() {
    return parse_binary({"+", "-"}, [this] { return parse_concat(); });
  }

  Result<NodePtr> parse_concat() {
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

  Result<NodePtr> parse_product() {
    return parse_binary({"*", "/", "//", "%"}, [this] {
      return parse_binary({"**"}, [this] { return parse_unary(/*with_filters=*/true); });
    });
  }

  Result<NodePtr> parse_unary(bool with_filters) {
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

  Result<NodePtr> parse_primary() {
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

  Result<NodePtr> parse_items(NodePtr node, Kind kind, std::string_view end) {
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

  Result<NodePtr> parse_postfix(NodePtr node) {
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

  Result<NodePtr> parse_attribute(NodePtr of) {
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
  Result<NodePtr> parse_item(NodePtr of) {
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
  Status parse_arguments(Node& node) {
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

  Result<NodePtr> parse_call(NodePtr of) {
    NodePtr node = with_children(make(Kind::kCall), std::move(of));
    MEG_RETURN_IF_ERROR(parse_arguments(*node));
    return node;
  }

  Result<NodePtr> parse_filters_and_tests(NodePtr node) {
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

  /// `| name(arguments)`, as many as there are; node: what the first one filters.
  Result<NodePtr> parse_filters(NodePtr node, bool first_is_open = false) {
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

  Result<NodePtr> parse_test(NodePtr of) {
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int links_ = 0;
  int loops_ = 0;  ///< Around the current statement.
};

}  // namespace

Result<std::vector<NodePtr>> parse_template(std::string_view source) {
  MEG_ASSIGN_OR_RETURN(std::vector<Token> tokens, read_tokens(source));
  return Parser(std::move(tokens)).parse();
}

}  // namespace meg::chat
