#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/clean.h"

namespace meg::cleaning {

/// Repairs texts by some of repair_rules(), each line until nothing changes any more. Belongs to
/// one thread. Mirrors ftfy 6.3.1's fix_text with the other rules switched off.
class TextRepair {
 public:
  explicit TextRepair(const std::vector<std::string>& rules);

  /// False where there is nothing to repair; else `out` is the repaired text.
  bool repair(std::string_view text, std::string& out);

 private:
  bool may_change(std::string_view text) const;
  /// unescapes: HTML entities.
  void repair_segment(std::string_view segment, bool unescapes, std::string& out);
  void normalize();

  bool unescape_html_, encoding_, c1_controls_, ligatures_, width_, quotes_, line_breaks_, escapes_,
      control_chars_, nfc_;
  std::u32string text_, next_;  // of the segment
};

}  // namespace meg::cleaning
