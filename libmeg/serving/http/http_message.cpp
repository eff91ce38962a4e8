#include "libmeg/serving/http/http_message.h"

#include <algorithm>

#include "libmeg/serving/http/internal/http_request.h"
#include "libmeg/serving/internal/text_answer.h"

namespace meg::serving {

const std::string* HttpRequest::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

size_t HttpRequest::count(std::string_view name) const {
  return static_cast<size_t>(
      std::ranges::count_if(headers, [&](const auto& header) { return header.first == name; }));
}

std::string HttpRequest::media_type() const {
  const std::string* type = header("content-type");
  if (type == nullptr) return "";
  const std::string_view named = std::string_view(*type).substr(0, type->find(';'));
  return lower(named.substr(0, named.find_last_not_of(" \t") + 1));
}

std::optional<std::string> HttpRequest::parameter(std::string_view name) const {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (percent_decoded(pair.substr(0, equals)) != name) continue;
    std::string value(pair.substr(std::min(equals + 1, pair.size())));
    std::ranges::replace(value, '+', ' ');  // as forms send blanks
    return percent_decoded(value);
  }
  return std::nullopt;
}

HttpResponse message_error(int status, std::string_view message) {
  return {.status = status, .body = error_answer(message)};
}

}  // namespace meg::serving
