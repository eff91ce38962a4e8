#include "libmeg/evaluation/internal/wikitext_detokenizer.h"

#include <string_view>
#include <utility>

#include "libmeg/text/python_text.h"

namespace meg::evaluation {
namespace {

using Replacement = std::pair<std::string_view, std::string_view>;

std::string replaced(std::string_view text, const Replacement& replacement) {
  const auto& [old_text, new_text] = replacement;
  std::string result;
  result.reserve(text.size());
  for (size_t at = text.find(old_text); at != std::string_view::npos; at = text.find(old_text)) {
    result.append(text.substr(0, at)).append(new_text);
    text.remove_prefix(at + old_text.size());
  }
  return result.append(text);
}

/// Between each `open` and the next `close` whitespace goes at both ends; what is found there is
/// not looked at again.
std::string without_inner_space(std::string_view text, char open, char close) {
  std::string result;
  result.reserve(text.size());
  for (;;) {
    const size_t begin = text.find(open);
    if (begin == std::string_view::npos) break;
    const size_t end = text.find(close, begin + 1);
    if (end == std::string_view::npos) break;
    result.append(text.substr(0, begin + 1));
    result.append(text::python_strip(text.substr(begin + 1, end - begin - 1)));
    result.push_back(close);
    text.remove_prefix(end + 1);
  }
  return result.append(text);
}

/// Megatron's pattern for "' 9" has slashes at its ends as in other languages, and a replacement
/// that is taken by the letter; both are kept.
std::string with_slashed_digits(std::string_view text) {
  constexpr std::string_view kStart = "/' ";
  std::string result;
  result.reserve(text.size());
  for (size_t at = text.find(kStart); at != std::string_view::npos; at = text.find(kStart)) {
    const std::string_view rest = text.substr(at + kStart.size());
    const bool matches = rest.size() >= 2 && rest[0] >= '0' && rest[0] <= '9' && rest[1] == '/';
    result.append(text.substr(0, at)).append(matches ? "/'[0-9]/" : "/");
    text.remove_prefix(at + (matches ? kStart.size() + 2 : 1));
  }
  return result.append(text);
}

constexpr Replacement kContractions = {"s '", "s'"};

constexpr Replacement kPunctuation[] = {{" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."},
                                        {" : ", ": "},  {" ; ", "; "},  {" . ", ". "},
                                        {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};

constexpr std::pair<char, char> kPairs[] = {
    {'(', ')'}, {'[', ']'}, {'{', '}'}, {'"', '"'}, {'\'', '\''}};

constexpr Replacement kRest[] = {{"= = = =", "===="},    {"= = =", "==="}, {"= =", "=="},
                                 {" \u00B0 ", "\u00B0"}, {" \n", "\n"},    {"\n ", "\n"},
                                 {" N ", " 1 "},         {" 's", "'s"}};

}  // namespace

std::string detokenize_wikitext(std::string text) {
  // Megatron's steps in its order: each sees what those before it have left.
  text = with_slashed_digits(replaced(text, kContractions));
  for (const Replacement& replacement : kPunctuation) text = replaced(text, replacement);
  for (const auto& [open, close] : kPairs) text = without_inner_space(text, open, close);
  for (const Replacement& replacement : kRest) text = replaced(text, replacement);
  return text;
}

}  // namespace meg::evaluation
