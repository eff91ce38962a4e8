#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/chat/internal/template_lexer.h"
#include "libmeg/chat/internal/template_syntax.h"

namespace meg::chat {

/// Reads expressions from the tokens of a template, from the weakest operator to the strongest. The
/// parser of statements is made of it.
class ExpressionParser {
 protected:
  using Kind = Node::Kind;
  using Type = Token::Type;
  using Names = std::vector<std::string_view>;

  /// Expressions and statements inside each other, so that the stack is not exhausted.
  static constexpr int kMaxNesting = 200;
  /// Operators of one level in one tag: a + b + c is ((a + b) + c).
  static constexpr int kMaxLinks = 5000;

  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }

  const Token& after_current() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }

  void skip() { ++at_; }

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

  /// Of the current token.
  size_t position() const { return at_; }

  /// Whether a token from this position to the current one is this name.
  bool has_name_since(size_t begin, std::string_view name) const {
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                       [name](const Token& token) { return token.is_name(name); });
  }

  Status error(std::string_view expected) const;

  Status unsupported(const Token& token) const;

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

  /// A tag begins, whose operators are counted.
  void begin_tag() { links_ = 0; }

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
    explicit Nested(ExpressionParser& parser) : parser_(parser) { ++parser_.nesting_; }

    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

    ~Nested() { --parser_.nesting_; }

    bool is_too_deep() const { return parser_.nesting_ > kMaxNesting; }

   private:
    ExpressionParser& parser_;
  };

  /// Whether no further expression comes in a list of them: at a bracket, the end of a tag, or one
  /// of `ends`.
  bool ends_tuple(const Names& ends) const;

  /// Expressions with commas between them; a single one without a comma is itself.
  Result<NodePtr> parse_tuple(bool with_conditional = true, const Names& ends = {},
                              bool may_be_empty = false);

  Result<NodePtr> parse_expression();

  /// `| name(arguments)`, as many as there are; node: what the first one filters.
  Result<NodePtr> parse_filters(NodePtr node, bool first_is_open = false);

 private:
  template <class ParseNext>
  Result<NodePtr> parse_logical(Kind kind, std::string_view name, ParseNext&& parse_next);
  template <class ParseNext>
  Result<NodePtr> parse_binary(const Names& operators, ParseNext&& parse_next);
  Result<NodePtr> parse_or();
  Result<NodePtr> parse_not();
  Result<NodePtr> parse_compare();
  Result<NodePtr> parse_sum();
  Result<NodePtr> parse_concat();
  Result<NodePtr> parse_product();
  Result<NodePtr> parse_unary(bool with_filters);
  Result<NodePtr> parse_primary();
  Result<NodePtr> parse_items(NodePtr node, Kind kind, std::string_view end);
  Result<NodePtr> parse_postfix(NodePtr node);
  Result<NodePtr> parse_attribute(NodePtr of);
  Result<NodePtr> parse_item(NodePtr of);
  Status parse_arguments(Node& node);
  Result<NodePtr> parse_call(NodePtr of);
  Result<NodePtr> parse_filters_and_tests(NodePtr node);
  Result<NodePtr> parse_test(NodePtr of);
  std::string take_comparison();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int links_ = 0;
};

}  // namespace meg::chat
