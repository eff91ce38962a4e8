#include "libmeg/serving/http/internal/allowed_hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

/// "localhost" of "LocalHost.:5000", "::1" of "[::1]:5000".
std::string host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    const size_t end = std::min(authority.find(']'), authority.size());
    const bool is_whole = end + 1 == authority.size() || authority.substr(end).starts_with("]:");
    return is_whole ? lower(authority.substr(1, end - 1)) : "";
  }
  std::string_view host = authority.substr(0, authority.find(':'));
  // `name.` is the same host as `name`, said from the root of the DNS.
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower(host);
}

bool is_address(const std::string& host, bool in_brackets) {
  in6_addr address;
  return ::inet_pton(in_brackets ? AF_INET6 : AF_INET, host.c_str(), &address) == 1;
}

}  // namespace

AllowedHosts::AllowedHosts(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    // An address, which needs no name, may have none: "::".
    if (const std::string host = host_of(name); !host.empty()) names_.push_back(host);
  }
}

bool AllowedHosts::is_named(std::string_view authority) const {
  return std::ranges::find(names_, host_of(authority)) != names_.end();
}

/// HTTP/1.0 may name no host; a browser always does.
bool AllowedHosts::answers_to(std::string_view authority) const {
  if (authority.empty()) return true;
  const std::string host = host_of(authority);
  return host == "localhost" || is_address(host, authority.starts_with('[')) || is_named(authority);
}

bool AllowedHosts::is_own_origin(const std::string& origin, const std::string& host) const {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view authority = std::string_view(origin).substr(scheme.size());
    return lower(authority) == lower(host) || is_named(authority);
  }
  return false;
}

std::optional<HttpError> AllowedHosts::check(const HttpRequest& request, bool any_origin) const {
  if (!answers_to(request.host)) {
    return HttpError{403, fmt::format("this server does not answer to the host {}: --allowed-hosts "
                                      "adds hosts besides localhost and addresses",
                                      text::printable(request.host))};
  }
  if (const size_t origins = request.count("origin"); origins > 1) {
    return HttpError{400,
                     fmt::format("the request must have one Origin header, found {}", origins)};
  }
  const std::string* origin = request.header("origin");
  if (any_origin || origin == nullptr || is_own_origin(*origin, request.host)) return std::nullopt;
  return HttpError{403, fmt::format("this server does not answer to pages of {}: --allowed-hosts "
                                    "adds hosts whose pages may send requests",
                                    text::printable(*origin))};
}

}  // namespace meg::serving
