#include "libmeg/cleaning/urls/url_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <utility>

#include "libmeg/cleaning/openwebtext/duplicate_groups.h"
#include "libmeg/cleaning/urls/internal/openwebtext_blacklist.h"
#include "libmeg/cleaning/words/english_words.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/line_ends.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"
#include "libmeg/text/whitespace.h"

namespace meg::cleaning {
namespace {

constexpr std::string_view kFilters[] = {"domain", "extension", "short", "malformed"};

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = text::ascii_lower(c);
  return lower;
}

/// The second level of a country whose names are given below it.
bool is_second_level(std::string_view label) {
  constexpr std::string_view kLabels[] = {"ac",  "co",   "com",  "edu", "gen",  "go",  "gob",
                                          "gov", "gouv", "govt", "id",  "info", "ltd", "mil",
                                          "ne",  "net",  "nom",  "or",  "org",  "plc", "sch"};
  return std::find(std::begin(kLabels), std::end(kLabels), label) != std::end(kLabels);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), text::is_ascii_digit);
}

// A letter or digit of [A-Z0-9] as Python's re has it with IGNORECASE, and its bytes; 0: none.
size_t letter_size(std::string_view text) {
  if (text.empty()) return 0;
  if (text::is_ascii_letter(text.front()) || text::is_ascii_digit(text.front())) return 1;
  for (const std::string_view other : {"\u0130", "\u0131", "\u017f", "\u212a"}) {
    if (text.starts_with(other)) return other.size();
  }
  return 0;
}

/// The labels of a host, or nothing where a character is none of a host's.
std::vector<std::string_view> labels_of(std::string_view host) {
  std::vector<std::string_view> labels;
  size_t begin = 0;
  for (size_t at = 0; at < host.size();) {
    if (host[at] == '.') {
      labels.push_back(host.substr(begin, at - begin));
      begin = ++at;
      continue;
    }
    const size_t size = host[at] == '-' ? 1 : letter_size(host.substr(at));
    if (size == 0) return {};
    at += size;
  }
  labels.push_back(host.substr(begin));
  return labels;
}

bool is_label(std::string_view label) {
  return !label.empty() && !label.starts_with('-') && !label.ends_with('-') &&
         count_characters(label) <= 63;
}

bool is_host(std::string_view host) {
  std::vector<std::string_view> labels = labels_of(host);
  if (labels.size() == 4 && std::all_of(labels.begin(), labels.end(), [](std::string_view label) {
        return is_number(label) && label.size() <= 3;
      })) {
    return true;
  }
  if (labels.size() > 1 && labels.back().empty()) labels.pop_back();  // A dot at the end.
  if (labels.size() < 2 || count_characters(labels.back()) < 2) return false;
  labels.pop_back();
  return std::all_of(labels.begin(), labels.end(), is_label);
}

Result<std::string> read_file(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  constexpr int64_t kMost = int64_t{1} << 30;
  if (size > kMost) {
    return make_error(StatusCode::kUnsupported, "{}: expected at most 1 GiB, found {} bytes", path,
                      size);
  }
  std::string text(static_cast<size_t>(size), '\0');
  MEG_RETURN_IF_ERROR(file.read_exactly_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

std::span<const std::string_view> url_filters() { return kFilters; }

std::string url_domain(std::string_view url) {
  if (const size_t scheme = url.find("://"); scheme != url.npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (const size_t user = url.rfind('@'); user != url.npos) url.remove_prefix(user + 1);
  url = url.substr(0, url.find(':'));
  while (url.ends_with('.')) url.remove_suffix(1);
  const std::string host = lowered(url);
  std::vector<std::string_view> labels;
  for (size_t begin = 0; begin <= host.size();) {
    const size_t end = std::min(host.find('.', begin), host.size());
    labels.push_back(std::string_view(host).substr(begin, end - begin));
    begin = end + 1;
  }
  const size_t count = labels.size();
  const bool is_country = labels.back().size() == 2;
  const size_t suffix = is_country && count > 2 && is_second_level(labels[count - 2]) ? 2 : 1;
  if (count <= suffix || is_number(labels.back())) return {};
  return std::string(labels[count - suffix - 1]);
}

bool is_malformed_url(std::string_view url) {
  constexpr std::string_view kScheme = "http";
  if (lowered(url.substr(0, kScheme.size())) != kScheme) return true;
  url.remove_prefix(kScheme.size());
  for (const std::string_view secure : {"s", "S", "\u017f"}) {
    if (!url.starts_with(secure)) continue;
    url.remove_prefix(secure.size());
    break;
  }
  if (!url.starts_with("://")) return true;
  url.remove_prefix(3);
  const size_t host_end = std::min(url.find_first_of(":/?"), url.size());
  if (!is_host(url.substr(0, host_end))) return true;
  url.remove_prefix(host_end);
  if (url.starts_with(':')) {
    size_t end = 1;
    while (end < url.size() && text::is_ascii_digit(url[end])) ++end;
    if (end == 1) return true;
    url.remove_prefix(end);
  }
  if (url.empty() || url == "/") return false;
  if ((url.front() != '/' && url.front() != '?') || url.size() == 1) return true;
  while (!url.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(url);
    if (text::is_python_space(next.code_point)) return true;
    url.remove_prefix(next.size);
  }
  return false;
}

struct UrlRules::Patterns {
  std::vector<std::unique_ptr<re2::RE2>> all;
};

UrlRules::UrlRules() : patterns_(std::make_unique<Patterns>()) {}

UrlRules::UrlRules(UrlRules&&) noexcept = default;
UrlRules& UrlRules::operator=(UrlRules&&) noexcept = default;
UrlRules::~UrlRules() = default;

Result<UrlRules> UrlRules::read(const UrlOptions& options) {
  UrlRules rules;
  for (const std::string& filter : options.filters) {
    if (std::find(std::begin(kFilters), std::end(kFilters), filter) == std::end(kFilters)) {
      return make_error(StatusCode::kInvalidArgument, "`url_filters`: expected one of {}, found {}",
                        fmt::join(kFilters, ", "), filter);
    }
  }
  rules.filters_ = options.filters;
  if (options.blacklist.empty()) {
    MEG_RETURN_IF_ERROR(rules.read_blacklist(openwebtext_blacklist(), "the blacklist"));
  } else {
    MEG_ASSIGN_OR_RETURN(const std::string text, read_file(options.blacklist));
    MEG_RETURN_IF_ERROR(rules.read_blacklist(text, options.blacklist));
  }
  if (!options.patterns.empty()) {
    MEG_ASSIGN_OR_RETURN(const std::string text, read_file(options.patterns));
    MEG_RETURN_IF_ERROR(rules.read_patterns(text, options.patterns));
  }
  if (!options.groups.empty()) {
    MEG_ASSIGN_OR_RETURN(rules.grouped_, read_grouped_urls(options.groups));
  }
  return rules;
}

Status UrlRules::read_blacklist(std::string_view text, const std::string& name) {
  std::string_view line;
  for (int64_t number = 1; text::take_line(text, line); ++number) {
    line = text::trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view kind = line.substr(0, space);
    const std::string_view value = text::trimmed(line.substr(space));
    if (kind == "domain" && !value.empty()) {
      domains_.insert(lowered(value));
    } else if (kind == "extension" && !value.empty()) {
      extensions_.push_back(lowered(value));
    } else {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: line {}: expected `domain NAME` or `extension .NAME`, found {}", name,
                        number, text::printable(line));
    }
  }
  return {};
}

Status UrlRules::read_patterns(std::string_view text, const std::string& name) {
  std::string_view line;
  for (int64_t number = 1; text::take_line(text, line); ++number) {
    if (text::trimmed(line).empty() || line.starts_with('#')) continue;
    auto pattern =
        std::make_unique<re2::RE2>(re2::StringPiece(line.data(), line.size()), re2::RE2::Quiet);
    if (!pattern->ok()) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: line {}: expected a regular expression, {}", name, number,
                        text::printable_name(pattern->error(), 200));
    }
    patterns_->all.push_back(std::move(pattern));
  }
  if (!patterns_->all.empty()) return {};
  return make_error(StatusCode::kInvalidArgument, "{}: expected regular expressions, found none",
                    name);
}

bool UrlRules::asks_for(std::string_view filter) const {
  return std::find(filters_.begin(), filters_.end(), filter) != filters_.end();
}

std::string_view UrlRules::reason(std::string_view whole) const {
  const std::string_view url = text::python_strip(whole);
  if (asks_for("domain") && domains_.contains(url_domain(url))) return "domain";
  if (asks_for("extension")) {
    const std::string path = lowered(url.substr(0, url.find('?')));
    for (const std::string& extension : extensions_) {
      if (path.ends_with(extension)) return "extension";
    }
  }
  constexpr int64_t kShort = 8;
  if (asks_for("short") && count_characters(url) <= kShort) return "short";
  if (asks_for("malformed") && is_malformed_url(url)) return "malformed";
  for (const std::unique_ptr<re2::RE2>& pattern : patterns_->all) {
    if (re2::RE2::PartialMatch(re2::StringPiece(url.data(), url.size()), *pattern))
      return "pattern";
  }
  if (!grouped_.empty() && grouped_.contains(std::string(whole))) return "group";
  return {};
}

}  // namespace meg::cleaning
