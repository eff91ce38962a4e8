#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"

namespace meg::cleaning {

/// The label of a URL's host that stands before its public suffix, in lower case: "bbc" of
/// http://news.bbc.co.uk:80/x. The suffix is the last label, or the last two where a country has a
/// second level such as co or com. Empty where there is none, as in an address of numbers.
std::string url_domain(std::string_view url);

/// Whether it is http:// or https://, a host with a dot or an address of numbers, and what may
/// follow. Mirrors Megatron-LM tools/openwebtext/blacklist_urls.py: url_is_malformed.
bool is_malformed_url(std::string_view url);

/// Why a URL goes.
class UrlRules {
 public:
  /// kInvalidArgument for files that are not as they must be.
  static Result<UrlRules> read(const UrlOptions& options);

  UrlRules(UrlRules&&) noexcept;
  UrlRules& operator=(UrlRules&&) noexcept;
  ~UrlRules();

  /// The first of options.filters, in the order of url_filters(), "pattern" or "group"; empty if it
  /// stays.
  std::string_view reason(std::string_view url) const;

 private:
  struct Patterns;

  UrlRules();
  Status read_blacklist(std::string_view text, const std::string& name);
  Status read_patterns(std::string_view text, const std::string& name);
  bool asks_for(std::string_view filter) const;

  std::vector<std::string> filters_;
  std::unordered_set<std::string> domains_;
  std::vector<std::string> extensions_;
  std::unique_ptr<Patterns> patterns_;
  std::unordered_set<std::string> grouped_;
};

}  // namespace meg::cleaning
