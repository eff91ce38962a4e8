// Any text, repaired by rules that the first two bytes choose: valid UTF-8 again, of bounded
// length, and the same from a repair that has seen no other text. Bytes that are not UTF-8 are
// taken for Latin-1's, as programs that spoil texts do.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/repair/repair_text.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

std::string as_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto [code_point, size] = meg::text::decode_code_point(bytes);
    const bool is_valid = code_point != meg::text::kInvalidCodePoint;
    const size_t taken = is_valid ? size : 1;
    const char32_t c = is_valid ? code_point : static_cast<unsigned char>(bytes.front());
    meg::text::append_code_point(c, text);
    bytes.remove_prefix(taken);
  }
  return text;
}

/// With the padding that texts of documents have.
std::string repaired(meg::cleaning::TextRepair& repair, const std::string& text) {
  std::string padded = text, out;
  padded.append(meg::text::kTextPadding, '\0');
  const bool is_changed = repair.repair(std::string_view(padded).substr(0, text.size()), out);
  MEG_FUZZ_CHECK(!is_changed || out != text);
  return is_changed ? out : text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::vector<std::string> rules;
  const auto names = meg::cleaning::repair_rules();
  for (size_t i = 0; i < names.size(); ++i) {
    if (((data[0] | data[1] << 8) >> i & 1) == 0) rules.emplace_back(names[i]);
  }
  meg::cleaning::TextRepair repair(rules);
  const std::string text = as_utf8({reinterpret_cast<const char*>(data) + 2, size - 2});
  const std::string once = repaired(repair, text);
  MEG_FUZZ_CHECK(meg::text::find_invalid_utf8(once) == std::string_view::npos);
  MEG_FUZZ_CHECK(once.size() <= 16 * text.size() + 16);
  meg::cleaning::TextRepair fresh(rules);
  MEG_FUZZ_CHECK(repaired(fresh, text) == once);
  return 0;
}
