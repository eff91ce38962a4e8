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
  for (auto& [field, value] : form_fields(query)) {
    if (field == name) return std::move(value);
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> form_fields(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> fields;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    auto name = percent_decoded(pair.substr(0, equals));
    std::string sent(pair.substr(std::min(equals + 1, pair.size())));
    std::ranges::replace(sent, '+', ' ');  // as forms send spaces
    auto value = percent_decoded(sent);
    if (name && value) fields.emplace_back(*std::move(name), *std::move(value));
  }
  return fields;
}

HttpResponse message_error(int status, std::string_view message) {
  return {.status = status, .body = error_answer(message)};
}

}  // namespace meg::serving
