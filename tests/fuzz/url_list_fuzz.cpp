// Any text as a blacklist of URLs, after a 0 as a list of patterns, after another as a URL: an
// error of one line, or one of the known reasons.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/cleaning/urls/url_rules.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto take = [&rest] {
    const std::string_view part = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
  };
  const meg::test::MemoryFile blacklist(take()), patterns(take());
  const auto names = meg::cleaning::url_filters();
  const auto rules = meg::cleaning::UrlRules::read({.key = "",
                                                    .filters = {names.begin(), names.end()},
                                                    .blacklist = blacklist.path(),
                                                    .patterns = patterns.path(),
                                                    .groups = ""});
  if (!rules.has_value()) {
    MEG_FUZZ_CHECK(rules.error().code() == meg::StatusCode::kInvalidArgument);
    MEG_FUZZ_CHECK(rules.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const std::string_view reason = rules->reason(rest);
  MEG_FUZZ_CHECK(reason.empty() || reason == "pattern" ||
                 std::find(names.begin(), names.end(), reason) != names.end());
  return 0;
}
