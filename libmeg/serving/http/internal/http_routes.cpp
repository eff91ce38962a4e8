#include "libmeg/serving/http/internal/http_routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "libmeg/base/stopwatch.h"
#include "libmeg/serving/http/internal/http_response.h"
#include "libmeg/serving/http/internal/listening_socket.h"
#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

bool takes_method(const HttpRoute& route, const std::string& method) {
  const std::string& wanted = method == "HEAD" ? "GET" : method;
  return route.methods.empty() || std::ranges::find(route.methods, wanted) != route.methods.end();
}

/// Takes as long for each key of a length, whatever their first different bytes are.
bool is_equal_key(std::string_view key, std::string_view given) {
  if (key.size() != given.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    difference |= static_cast<unsigned char>(key[i]) ^ static_cast<unsigned char>(given[i]);
  }
  return difference == 0;
}

/// What the server is called: what it was told, and the name of this machine, which no page of a
/// stranger has.
AllowedHosts allowed_hosts(const HttpServerOptions& options) {
  std::vector<std::string> names = options.allowed_hosts;
  if (!options.host.starts_with(kUnixScheme)) names.push_back(options.host);
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) {
    const std::string whole = name.data();
    names.push_back(whole);
    names.push_back(whole.substr(0, whole.find('.')));
  }
  return AllowedHosts(names);
}

}  // namespace

/// One request on its way.
struct HttpRoutes::Exchange {
  ClientConnection& connection;
  HttpReader reader;
  HttpRequest request;
  const HttpRoute* route = nullptr;
  std::string body;
  RequestLog log;
};

HttpRoutes::HttpRoutes(HttpService service, const HttpServerOptions& options)
    : service_(std::move(service)),
      hosts_(allowed_hosts(options)),
      api_keys_(options.api_keys),
      cors_origins_(options.cors_origins),
      max_request_bytes_(options.max_request_bytes) {}

bool HttpRoutes::answer_one(ClientConnection& connection, bool last) const {
  const Stopwatch since_first_byte;
  Exchange exchange{connection, HttpReader(connection), {}, nullptr, {}, {}};
  const HttpRequest& request = exchange.request;
  RequestLog& line = exchange.log;
  line.client = peer_address(connection.socket());
  HttpResponse response;
  try {
    response = respond(exchange);
  } catch (const std::exception&) {  // no memory is left
    response = message_error(500, "the server failed at this request");
  }
  // A request that was not read to its end leaves bytes that the next one would be read from.
  const bool close =
      last || !request.keep_alive || !exchange.reader.is_at_end() || response.status == kClientGone;
  line.method = request.method;
  line.path = request.path;
  line.status = response.status;
  const auto log = [&] {
    line.seconds = since_first_byte.seconds();
    if (service_.log) service_.log(line);
  };
  // Log before the answer is sent, so that who has it finds its line; what a body that is written
  // piecewise comes to is known after it.
  if (!response.write) log();
  SentResponse sent;
  try {
    sent = send_response(connection, request, response, close);
    if (!sent.is_whole && line.status == response.status) line.status = kClientGone;
  } catch (const std::exception&) {  // no memory in the middle of a body
    line.status = 500;
  }
  if (response.write) log();
  return sent.stays_open;
}

HttpResponse HttpRoutes::respond(Exchange& exchange) const {
  HttpResponse response = respond_or_fail(exchange);
  if (response.status == 503 || response.status == 429)
    response.headers.emplace_back("Retry-After", "1");
  if (is_cors_origin(exchange.request)) {
    response.headers.emplace_back("Access-Control-Allow-Origin",
                                  *exchange.request.header("origin"));
    response.headers.emplace_back("Vary", "Origin");
  }
  return response;
}

HttpResponse HttpRoutes::respond_or_fail(Exchange& exchange) const {
  const HttpRequest& request = exchange.request;
  std::optional<HttpError> error = exchange.reader.read_head(&exchange.request);
  exchange.route = route_of(request.path);
  const HttpErrorForm fail = exchange.route == nullptr ? message_error : exchange.route->error_form;
  // Check before the path is looked at: a page of a stranger learns nothing but that it may not
  // ask.
  if (!error) error = hosts_.check(request, is_cors_origin(request));
  if (error) return fail(error->status, error->message);
  if (request.method == "OPTIONS" && is_cors_origin(request)) {
    return {.status = 204,
            .headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, PUT"},
                        {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
                        {"Access-Control-Max-Age", "600"}}};
  }
  if ((exchange.route == nullptr || !exchange.route->is_open) && !has_key(request)) {
    HttpResponse refused =
        fail(401, "this server needs an API key: send the header Authorization: Bearer KEY");
    refused.headers.emplace_back("WWW-Authenticate", "Bearer");
    return refused;
  }
  if (exchange.route == nullptr) return fail(404, "there is nothing at this path");
  const HttpRoute& route = *exchange.route;
  if (!takes_method(route, request.method)) {
    const std::string methods = fmt::format("{}", fmt::join(route.methods, ", "));
    HttpResponse refused = fail(405, "this path takes " + methods);
    refused.headers.emplace_back("Allow", methods + (takes_method(route, "GET") ? ", HEAD" : ""));
    return refused;
  }
  const bool takes_form = route.takes_form && request.method == "POST";
  if (route.takes_json || takes_form) {
    // Any web page may send other types to any server; for this one a browser asks before.
    if (const std::string type = request.media_type();
        type != kJsonType && !(takes_form && type == kFormType)) {
      return fail(
          415, fmt::format("Content-Type must be {}, found {}", kJsonType, text::printable(type)));
    }
    error = exchange.reader.read_body(max_request_bytes_, &exchange.body);
    if (error) return fail(error->status, error->message);
  }
  exchange.connection.request_is_read();
  return route.handler({request, exchange.body, exchange.connection.socket(), exchange.log});
}

const HttpRoute* HttpRoutes::route_of(const std::string& path) const {
  const HttpRoute* longest = nullptr;
  for (const HttpRoute& route : service_.routes) {
    if (route.path == path && !route.is_prefix) return &route;
    if (!route.is_prefix || !path.starts_with(route.path)) continue;
    if (longest == nullptr || longest->path.size() < route.path.size()) longest = &route;
  }
  return longest;
}

bool HttpRoutes::has_key(const HttpRequest& request) const {
  if (api_keys_.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  const std::string* given = request.header("authorization");
  if (given == nullptr || lower(given->substr(0, kScheme.size())) != kScheme) return false;
  const std::string_view key = std::string_view(*given).substr(kScheme.size());
  bool found = false;
  for (const std::string& each : api_keys_) found = is_equal_key(each, key) || found;
  return found;
}

bool HttpRoutes::is_cors_origin(const HttpRequest& request) const {
  const std::string* origin = request.header("origin");
  return origin != nullptr && std::ranges::any_of(cors_origins_, [&](const std::string& allowed) {
           return allowed == "*" || lower(allowed) == lower(*origin);
         });
}

}  // namespace meg::serving
