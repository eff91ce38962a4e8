#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/chat/internal/template_syntax.h"
#include "libmeg/chat/internal/value.h"

namespace meg::chat {

/// Names and their values, in a tree: a name is looked up from the innermost scope outwards.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// Renders a template. What it may use is limited, so that no template runs for ever, fills the
/// memory or exhausts the stack: kResourceExhausted. It reads no file and calls nothing but what
/// is in this folder.
/// Mirrors jinja2/compiler.py and sandbox.py: ImmutableSandboxedEnvironment, with the functions of
/// transformers' utils/chat_template_utils.py.
class Interpreter {
 public:
  /// statements must outlive it, and all that it makes.
  explicit Interpreter(std::span<const NodePtr> statements) : statements_(statements) {}

  Result<std::string> render(std::vector<std::pair<std::string, Value>> variables);

  /// The bytes of the text that `generation` blocks made: [begin, end).
  const std::vector<std::pair<size_t, size_t>>& generated() const { return generated_; }

  /// Counts work: values looked at, and bytes made.
  Status charge(size_t values, size_t bytes = 0);

  Result<Value> filter(const std::string& name, const Value& value, Arguments arguments);
  Result<bool> test(const std::string& name, const Value& value, Arguments arguments);

  /// value[key], or value.key where that is not there; undefined if neither is.
  static Result<Value> item_of(const Value& value, const Value& key);

  /// value.name, or value[name].
  static Result<Value> attribute_of(const Value& value, const std::string& name);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  using ScopePtr = std::shared_ptr<Scope>;

  /// Values looked at and 64 bytes made count as one.
  static constexpr size_t kMaxWork = 5'000'000;
  static constexpr size_t kBytesPerWork = 64;
  /// Bytes of one text.
  static constexpr size_t kMaxText = size_t{64} << 20;
  /// Statements and expressions inside each other, calls of macros included; the frames of
  /// sanitizers are large.
  static constexpr int kMaxDepth = 250;

  /// Counts what is inside each other while it lives.
  class Depth {
   public:
    explicit Depth(int& depth) : depth_(depth) { ++depth_; }

    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

    ~Depth() { --depth_; }

   private:
    int& depth_;
  };

  static Status limit_reached(std::string_view what);

  Result<Flow> execute_all(std::span<const NodePtr> nodes, const ScopePtr& scope, std::string& out);
  Result<Flow> execute(const Node& node, const ScopePtr& scope, std::string& out);
  Result<Flow> execute_for(const Node& node, const ScopePtr& scope, std::string& out);
  Status execute_generation(const Node& node, const ScopePtr& scope, std::string& out);
  Status execute_with(const Node& node, const ScopePtr& scope, std::string& out);
  Result<std::string> captured(const Node& node, const ScopePtr& scope);
  Status print(std::string_view text, std::string& out);
  Status assign(const Node& target, Value value, const ScopePtr& scope);
  Result<std::vector<Value>> looped_items(const Node& node, const ScopePtr& scope);
  Result<Value> make_macro(const Node& node, size_t first_default, const ScopePtr& scope);

  Result<Value> evaluate(const Node& node, const ScopePtr& scope);
  Result<Value> evaluate_here(const Node& node, const ScopePtr& scope);
  Result<std::vector<Value>> evaluate_all(std::span<const NodePtr> nodes, const ScopePtr& scope);
  Result<Arguments> evaluate_arguments(const Node& node, const ScopePtr& scope);
  Result<Value> evaluate_slice(const Node& node, const ScopePtr& scope);
  Result<Value> evaluate_compare(const Node& node, const ScopePtr& scope);
  Result<Value> evaluate_filter(const Node& node, Value value, const ScopePtr& scope);
  Result<Value> binary(std::string_view name, const Value& a, const Value& b);
  Result<Value> look_up(const std::string& name, const ScopePtr& scope) const;

  std::span<const NodePtr> statements_;
  std::vector<std::pair<size_t, size_t>> generated_;
  size_t work_ = 0;
  int depth_ = 0;
  int captures_ = 0;  ///< Bodies around the current statement whose text is not printed yet.
};

}  // namespace meg::chat
