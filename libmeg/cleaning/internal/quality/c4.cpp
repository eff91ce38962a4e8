#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "libmeg/cleaning/internal/quality/quality_rules.h"
#include "libmeg/cleaning/internal/quality/quality_text.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

/// Faster than find() where the first letter is a frequent one.
bool contains(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

/// `text` as str.lower() has it, as far as ASCII letters are concerned: two other characters become
/// some.
void lower_to_ascii(std::string_view text, std::string& out) {
  out.clear();
  for (size_t at = 0; at < text.size(); ++at) {
    // Runs of ASCII are most of it.
    const size_t begin = at;
    while (at < text.size() && text[at] >= 0) ++at;
    out.append(text.substr(begin, at - begin));
    std::transform(out.end() - static_cast<std::ptrdiff_t>(at - begin), out.end(),
                   out.end() - static_cast<std::ptrdiff_t>(at - begin),
                   [](char c) { return text::ascii_lower(c); });
    if (at == text.size()) return;
    const char c = text[at];
    if (c == '\xe2' && text.substr(at).starts_with("\u212a")) {  // the Kelvin sign
      out += 'k';
      at += 2;
    } else if (c == '\xc4' && text.substr(at).starts_with("\u0130")) {  // I with a dot
      out += "i\u0307";
      at += 1;
    } else {
      out += c;
    }
  }
}

class C4Quality : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    split_lines(document.text(), lines_);
    text_.clear();
    int64_t sentences = 0;
    for (const std::string_view whole : lines_) {
      const std::string_view stripped = text::python_strip(whole);
      int64_t words = 0;
      if (has_long_word(stripped, words)) continue;
      remove_citations(stripped);
      if (!ends_sentence(line_) || words < 3) continue;
      lower_to_ascii(line_, lower_);
      if (contains(lower_, "lorem ipsum")) return std::string_view("lorem_ipsum");
      if (contains(lower_, "javascript")) continue;
      if (line_.find('{') != line_.npos) return std::string_view("curly_bracket");
      if (names_policy()) continue;
      sentences += sentences_.count_sentences(line_);
      text_.append(text_.empty() ? "" : "\n").append(line_);
    }
    if (sentences < 5) return std::string_view("too_few_sentences");
    const std::string_view inner = text::python_strip(text_);
    const auto begin = static_cast<size_t>(inner.data() - text_.data());
    const size_t size = inner.size();
    text_.resize(text_.size() + text::kTextPadding);
    document.change_text(std::string_view(text_).substr(begin, size));
    return std::string_view();
  }

 private:
  static bool has_long_word(std::string_view line, int64_t& words) {
    constexpr int64_t kLongest = 1000;
    int64_t length = 0;
    bool is_long = false;
    while (!line.empty()) {
      if (line.front() > ' ' && line.front() < '\x7f') {
        line.remove_prefix(1);
        words += ++length == 1 ? 1 : 0;
        is_long = is_long || length > kLongest;
        continue;
      }
      const text::DecodedCodePoint next = text::decode_code_point(line);
      line.remove_prefix(next.size);
      length = text::is_python_space(next.code_point) ? 0 : length + 1;
      words += length == 1 ? 1 : 0;
      is_long = is_long || length > kLongest;
    }
    return is_long;
  }

  /// Sets line_ to the line without the citations of a wiki: [edit], [citation needed], [12], [].
  void remove_citations(std::string_view line) {
    line_.clear();
    while (!line.empty()) {
      const size_t bracket = std::min(line.find('['), line.size());
      line_.append(line.substr(0, bracket));
      line.remove_prefix(bracket);
      if (line.empty()) return;
      const size_t size = citation_size(line);
      if (size == 0) line_ += '[';
      line.remove_prefix(std::max<size_t>(size, 1));
    }
  }

  static size_t citation_size(std::string_view text) {
    for (const std::string_view known : {"[edit]", "[citation needed]"}) {
      if (text.starts_with(known)) return known.size();
    }
    size_t at = 1;
    while (at < text.size()) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
      if (next.code_point == ']') return at + 1;
      if ((character_flags(next.code_point) & kDigit) == 0) return 0;
      at += next.size;
    }
    return 0;
  }

  static bool ends_sentence(std::string_view line) {
    constexpr std::string_view kEnds = ".?!\"'";
    return !line.empty() && kEnds.find(line.back()) != kEnds.npos && !line.ends_with("...");
  }

  bool names_policy() const {
    if (contains(lower_, "terms of use") || contains(lower_, "privacy policy")) return true;
    constexpr std::string_view kPolicies[] = {"cookie policy", "uses cookies", "use of cookies",
                                              "use cookies"};
    return contains(lower_, "cookie") &&
           std::any_of(std::begin(kPolicies), std::end(kPolicies),
                       [&](std::string_view policy) { return contains(lower_, policy); });
  }

  EnglishWords sentences_;
  std::vector<std::string_view> lines_;
  std::string line_, lower_, text_;
};

}  // namespace

std::unique_ptr<Step> make_c4() { return std::make_unique<C4Quality>(); }

}  // namespace meg::cleaning
