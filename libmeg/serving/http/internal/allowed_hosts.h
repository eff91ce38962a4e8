#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/serving/http/internal/http_request.h"

namespace meg::serving {

/// Keeps web pages that a user has open from using the server: a page of another origin sends its
/// own in Origin; one whose name was made to resolve to this machine (DNS rebinding) asks for that
/// name in Host. Addresses and localhost cannot be taken over that way.
class AllowedHosts {
 public:
  /// names: what the server is called beside localhost and its addresses; a port does not count.
  explicit AllowedHosts(const std::vector<std::string>& names);

  /// 403 for a host that is given and is not among them, and for an origin that is neither the host
  /// itself, port included, nor among the names, unless any_origin; 400 for two origins.
  std::optional<HttpError> check(const HttpRequest& request, bool any_origin = false) const;

 private:
  bool is_named(std::string_view authority) const;
  bool answers_to(std::string_view authority) const;
  bool is_own_origin(const std::string& origin, const std::string& host) const;

  std::vector<std::string> names_;
};

}  // namespace meg::serving
