#include "libmeg/tokenizer/pretokenizer/internal/regex_matcher.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>

#include "libmeg/text/printable.h"

namespace meg::tokenizer {
namespace {

// A pattern that needs more for one match is hostile, or not meant for such text.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kDepthLimit = 100'000;

template <auto kFree>
struct Freed {
  void operator()(auto* pointer) const { kFree(pointer); }
};

using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;

}  // namespace

struct RegexMatcher::Compiled {
  Code code;
  MatchContext context;
};

Result<RegexMatcher> RegexMatcher::compile(std::string_view pattern, const std::string& name) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C |
                              PCRE2_DOLLAR_ENDONLY,
                          &error, &offset, nullptr));
  if (code == nullptr) {
    std::array<unsigned char, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return make_error(StatusCode::kUnsupported, "{}: pattern {}: byte {}: {}", name,
                      text::printable(pattern), offset, reinterpret_cast<const char*>(text.data()));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it, matching is only slower
  MatchContext context(pcre2_match_context_create(nullptr));
  if (context == nullptr) return Status(StatusCode::kResourceExhausted, name + ": no memory");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_depth_limit(context.get(), kDepthLimit);
  return RegexMatcher(
      std::make_shared<const Compiled>(Compiled{std::move(code), std::move(context)}));
}

std::optional<std::pair<size_t, size_t>> RegexMatcher::find(std::string_view text,
                                                            size_t from) const {
  thread_local const MatchData data(pcre2_match_data_create(1, nullptr));
  int found = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data.get(),
                                compiled_->context.get());
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                        text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | PCRE2_NO_JIT,
                        data.get(), compiled_->context.get());
  }
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) throw std::bad_alloc();
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(data.get());
  return std::pair<size_t, size_t>(bounds[0], bounds[1]);
}

}  // namespace meg::tokenizer
