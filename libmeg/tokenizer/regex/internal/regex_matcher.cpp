#include "libmeg/tokenizer/regex/internal/regex_matcher.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <vector>

#include "libmeg/base/per_thread.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/regex/internal/escape_ranges.h"
#include "libmeg/tokenizer/regex/internal/nested_brackets.h"
#include "libmeg/tokenizer/regex/internal/oniguruma_dialect.h"
#include "libmeg/tokenizer/unicode/internal/pattern_property.h"

namespace meg::tokenizer {
namespace {

// A pattern that needs more for one match is hostile, or not meant for such text.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kDepthLimit = 100'000;

/// Refuses properties of which libmeg has no tables, because PCRE2's Unicode version is another
/// one.
Status check_properties(std::string_view pattern, const std::string& name) {
  for (std::string_view rest = pattern; !rest.empty();) {
    const std::string_view element = rest.substr(0, size_of_element(rest));
    rest.remove_prefix(element.size());
    const std::string_view property = name_of_property(element);
    // These two are the same in every version.
    if (property.empty() || property == "Any" || property == "ASCII") continue;
    if (find_pattern_property(property)) continue;
    return make_error(StatusCode::kUnsupported, "{}: the property {} in a pattern is not supported",
                      name, text::printable(element));
  }
  return {};
}

/// Bytes of `\u2581`, a character by its code; 0 where another element begins.
size_t size_of_code(std::string_view pattern) {
  constexpr size_t kSize = 6;
  const bool is_code = pattern.starts_with("\\u") && pattern.size() >= kSize &&
                       std::all_of(&pattern[2], &pattern[kSize],
                                   [](unsigned char c) { return std::isxdigit(c) != 0; });
  return is_code ? kSize : 0;
}

/// Bytes of `(?i)`, which switches a flag; 0 where another element begins.
size_t size_of_switch(std::string_view pattern) {
  if (!pattern.starts_with("(?")) return 0;
  const size_t end = pattern.find_first_not_of("i-", 2);
  return end != std::string_view::npos && end > 2 && pattern[end] == ')' ? end + 1 : 0;
}

template <auto kFree>
struct Freed {
  void operator()(auto* pointer) const { kFree(pointer); }
};

using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;

/// Writes a pattern in PCRE2's dialect: with classes of characters as the packages see them, and
/// for Oniguruma with its meaning of `{2}?`, which may match nothing, of `{1,3}+`, which repeats
/// the interval, of `{,3}`, of `a(?i)b|c`, which is `a(?i:b|c)`, of `\b`, `\R` and `\u2581`.
class Translation {
 public:
  Translation(std::string_view pattern, RegexMatcher::Dialect dialect)
      : rest_(pattern), is_oniguruma_(dialect == RegexMatcher::Dialect::kOniguruma) {}

  std::string text() && {
    while (!rest_.empty()) {
      const bool is_own = is_oniguruma_ && !in_brackets_;
      const Interval interval = is_own ? interval_at(rest_) : Interval();
      const size_t switched = is_own ? size_of_switch(rest_) : 0;
      if (interval.size > 0) {
        add_interval(interval);
      } else if (switched > 0) {
        add_switch(switched);
      } else {
        const size_t code = is_oniguruma_ ? size_of_code(rest_) : 0;
        add_element(rest_.substr(0, code > 0 ? code : size_of_element(rest_)));
      }
    }
    return std::move(text_.append(groups_.front().switches, ')'));
  }

 private:
  void add_interval(const Interval& interval) {
    std::string_view written = rest_.substr(0, interval.size);
    rest_.remove_prefix(interval.size);
    const bool repeats = rest_.starts_with('+') || (interval.is_exact && rest_.starts_with('?'));
    if (repeats) text_.insert(repeated_, "(?:");
    text_ += written.starts_with("{,") ? "{0" : "{";
    text_.append(written.substr(1)).append(repeats ? ")" : "");
  }

  void add_switch(size_t size) {
    text_.append(rest_.substr(0, size - 1)) += ':';
    rest_.remove_prefix(size);
    ++groups_.back().switches;
  }

  void add_element(std::string_view element) {
    rest_.remove_prefix(element.size());
    const bool is_quantifier = element == "*" || element == "+" || element == "?";
    if (element == "(" && !in_brackets_) groups_.push_back({text_.size()});
    if (element == ")" && !in_brackets_ && groups_.size() > 1) {
      text_.append(groups_.back().switches, ')');
      repeated_ = groups_.back().begin;
      groups_.pop_back();
    } else if (!is_quantifier && !in_brackets_) {
      repeated_ = text_.size();
    }
    const auto ranges = ranges_of_escape(element, in_brackets_);
    if (is_oniguruma_ && !in_brackets_ && (element == "\\b" || element == "\\B")) {
      add_border(element == "\\b");
    } else if (is_oniguruma_ && !in_brackets_ && element == "\\R") {
      text_ += "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])";
    } else if (is_oniguruma_ && size_of_code(element) > 0) {
      text_.append("\\x{").append(element.substr(2)) += '}';
    } else if (!ranges || ranges->empty()) {
      text_ += element;
    } else {
      text_.append(in_brackets_ ? "" : "[").append(written(*ranges));
      text_.append(in_brackets_ ? "" : "]");
    }
    // Inside brackets the ranges stand as they are; a bracket within would be a character there.
    if (element == "[") in_brackets_ = true;
    if (element == "]") in_brackets_ = false;
  }

  /// Between a character of a word and another one or none; elsewhere unless `is_border`.
  void add_border(bool is_border) {
    const std::string word = fmt::format("[{}]", written(*ranges_of_escape("\\w", false)));
    text_ += fmt::format("(?:(?<={0})(?{1}{0})|(?<!{0})(?{2}{0}))", word, is_border ? '!' : '=',
                         is_border ? '=' : '!');
  }

  struct Group {
    size_t begin = 0;     // in text_
    size_t switches = 0;  // that hold up to its end
  };

  std::string_view rest_;
  bool is_oniguruma_;
  std::string text_;
  std::vector<Group> groups_ = {{}};  // that are open, the pattern itself first
  size_t repeated_ = 0;               // where what a quantifier repeats begins in text_
  bool in_brackets_ = false;
};

using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;

/// Matching writes into it, so each thread has its own; the compiled pattern is only read.
struct MatchData {
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> data{
      pcre2_match_data_create(1, nullptr)};
};

pcre2_match_data* thread_match_data() {
  static PerThread<MatchData> all;
  pcre2_match_data* const data = all.get().data.get();
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

struct RegexMatcher::Compiled {
  Code code;
  MatchContext context;
  std::string name, pattern;  // for messages
};

Result<RegexMatcher> RegexMatcher::compile(std::string_view pattern, const std::string& name,
                                           Dialect dialect) {
  const bool is_oniguruma = dialect == Dialect::kOniguruma;
  const std::string given(pattern);
  std::string flat = given;
  if (is_oniguruma) {
    MEG_ASSIGN_OR_RETURN(flat, flatten_nested_brackets(given, name));
    MEG_RETURN_IF_ERROR(check_oniguruma_dialect(flat, name));
  }
  pattern = flat;
  MEG_RETURN_IF_ERROR(check_properties(pattern, name));
  const std::string written = Translation(pattern, dialect).text();
  int error = 0;
  PCRE2_SIZE offset = 0;
  // The dialect that the packages read, as far as flags say it: Unicode classes, and for Oniguruma
  // ^ and $ at every line. \C is refused since it could cut a character in two, which NO_UTF_CHECK
  // here and in find() relies on not to happen.
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C |
                              (is_oniguruma ? PCRE2_MULTILINE : PCRE2_DOLLAR_ENDONLY),
                          &error, &offset, nullptr));
  if (code == nullptr) {
    std::array<unsigned char, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return make_error(StatusCode::kUnsupported, "{}: pattern {}: {}", name, text::printable(given),
                      reinterpret_cast<const char*>(text.data()));
  }
  // tokenizers cuts texts at empty matches, too; find() gives none.
  uint32_t matches_nothing = 0;
  pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (matches_nothing != 0) {
    return make_error(StatusCode::kUnsupported, "{}: pattern {}: an empty match is not supported",
                      name, text::printable(given));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it, matching is only slower
  MatchContext context(pcre2_match_context_create(nullptr));
  if (context == nullptr) return Status(StatusCode::kResourceExhausted, name + ": no memory");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_depth_limit(context.get(), kDepthLimit);
  return RegexMatcher(
      std::make_shared<const Compiled>(Compiled{std::move(code), std::move(context), name, given}));
}

const std::string& RegexMatcher::pattern() const { return compiled_->pattern; }

Result<std::optional<RegexMatcher::Match>> RegexMatcher::find(std::string_view text,
                                                              size_t from) const {
  pcre2_match_data* const data = thread_match_data();
  int found =
      pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                  from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data, compiled_->context.get());
  // The compiled code has 32 KiB of stack; the interpreter keeps its state on the heap, within the
  // limits of the context.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                        text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | PCRE2_NO_JIT, data,
                        compiled_->context.get());
  }
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  if (found < 0) {
    return make_error(StatusCode::kResourceExhausted,
                      "{}: pattern {}: expected at most {} steps for a match, found more at byte "
                      "{} of a part of {} bytes",
                      compiled_->name, text::printable(compiled_->pattern), kMatchLimit, from,
                      text.size());
  }
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(data);
  return std::optional<Match>({bounds[0], bounds[1]});
}

}  // namespace meg::tokenizer
