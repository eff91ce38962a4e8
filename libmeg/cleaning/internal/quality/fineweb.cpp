#include <algorithm>
#include <cstdint>

#include "libmeg/cleaning/internal/quality/quality_rules.h"
#include "libmeg/cleaning/internal/quality/quality_text.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

class FineWebQuality : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    const std::string_view text = document.text();
    const int64_t newlines = std::count(text.begin(), text.end(), '\n');
    split_at_newlines(text, 1, lines_);
    std::erase_if(lines_, [](std::string_view line) { return text::python_strip(line).empty(); });
    if (lines_.empty()) return std::string_view("empty");
    int64_t ended = 0, short_lines = 0;
    for (const std::string_view line : lines_) {
      const std::string_view last = line.substr(text::begin_of_character_before(line, line.size()));
      ended += any_has(last, kTerminal) ? 1 : 0;
      short_lines += count_characters(line) <= 30 ? 1 : 0;
    }
    const int64_t lines = std::ssize(lines_);
    if (ratio(ended, lines) < 0.12) return std::string_view("line_punct_ratio");
    if (ratio(short_lines, lines) > 0.67) return std::string_view("short_line_ratio");
    const Repeated repeated = count_repeated(lines_, counts_);
    if (ratio(repeated.characters, count_characters(text) - newlines) > 0.01) {
      return std::string_view("char_dup_ratio");
    }
    if (ratio(newlines, std::ssize(document.words())) > 0.3) return std::string_view("list_ratio");
    return std::string_view();
  }

 private:
  std::vector<std::string_view> lines_;
  DigestCounts counts_;
};

}  // namespace

std::unique_ptr<Step> make_fineweb() { return std::make_unique<FineWebQuality>(); }

}  // namespace meg::cleaning
