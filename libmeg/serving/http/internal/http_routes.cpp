#include "libmeg/serving/http/internal/http_routes.h"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "libmeg/base/stopwatch.h"
#include "libmeg/serving/http/internal/listening_socket.h"
#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

// The page's own inline script and style, requests to this server, and nothing else: a generated
// text that is shown in it can load or send nothing. No other site may frame it.
constexpr char kPagePolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; img-src data:; frame-ancestors 'none'";

bool asks_to_read(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

bool sends_a_body(const HttpRequest& request) {
  return request.method == "PUT" || request.method == "POST";
}

HttpResponse other_method(std::string allowed) {
  HttpResponse response = error_response(
      405, "this path takes another method: PUT or POST for /api, GET for / and /health");
  response.headers.emplace_back("Allow", std::move(allowed));
  return response;
}

}  // namespace

/// One request on its way.
struct HttpRoutes::Exchange {
  ClientConnection& connection;
  HttpReader reader;
  HttpRequest request;
  RequestLog log;
};

HttpRoutes::HttpRoutes(HttpHandlers handlers, AllowedHosts hosts, size_t max_request_bytes)
    : handlers_(std::move(handlers)),
      hosts_(std::move(hosts)),
      max_request_bytes_(max_request_bytes) {}

bool HttpRoutes::answer_one(ClientConnection& connection, bool last) const {
  const Stopwatch since_first_byte;
  Exchange exchange{connection, HttpReader(connection), {}, {}};
  exchange.log.client = peer_address(connection.socket());
  HttpResponse response;
  try {
    response = respond(exchange);
  } catch (const std::exception&) {  // no memory is left
    response = error_response(500, "the server failed at this request");
  }
  // A request that was not read to its end leaves bytes that the next one would be read from.
  const bool close = last || !exchange.request.keep_alive || !exchange.reader.is_at_end() ||
                     response.status == kClientGone;
  RequestLog& line = exchange.log;
  line.method = exchange.request.method;
  line.path = exchange.request.path;
  line.status = response.status;
  line.seconds = since_first_byte.seconds();
  // Log before the answer is sent, so that who has it finds its line.
  if (handlers_.log) handlers_.log(line);
  const std::string bytes = written(response, close, exchange.request.method != "HEAD");
  return connection.write(bytes.data(), bytes.size()) >= 0 && !close;
}

HttpResponse HttpRoutes::respond(Exchange& exchange) const {
  std::optional<HttpError> error = exchange.reader.read_head(&exchange.request);
  // Check before the path is looked at: a page of a stranger learns nothing but that it may not
  // ask.
  if (!error) error = hosts_.check(exchange.request);
  if (error) return error_response(error->status, error->message);
  return respond_to_path(exchange);
}

HttpResponse HttpRoutes::respond_to_path(Exchange& exchange) const {
  const HttpRequest& request = exchange.request;
  if (request.path == "/api") {
    return sends_a_body(request) ? answer_api(exchange) : other_method("PUT, POST");
  }
  if (request.path != "/" && request.path != "/health") {
    return error_response(404, "there is nothing here: use PUT /api, GET /health or GET /");
  }
  if (!asks_to_read(request)) return other_method("GET, HEAD");
  exchange.connection.request_is_read();
  return request.path == "/" ? answer_page() : answer_health();
}

HttpResponse HttpRoutes::answer_api(Exchange& exchange) const {
  // Any web page may send other types to any server; for this one a browser asks before.
  if (const std::string type = exchange.request.media_type(); type != kJsonType) {
    return error_response(
        415, fmt::format("Content-Type must be {}, found {}", kJsonType, text::printable(type)));
  }
  std::string body;
  if (const auto error = exchange.reader.read_body(max_request_bytes_, &body)) {
    return error_response(error->status, error->message);
  }
  exchange.connection.request_is_read();
  ApiAnswer answer = handlers_.api(body, exchange.connection.socket());
  RequestLog& line = exchange.log;
  line.prompts = answer.prompts;
  line.prompt_tokens = answer.prompt_tokens;
  line.new_tokens = answer.new_tokens;
  line.first_prompt = std::move(answer.first_prompt);
  if (answer.status == kClientGone) {
    return error_response(kClientGone, "the connection was closed before the answer");
  }
  HttpResponse response{.status = answer.status, .body = std::move(answer.body)};
  if (answer.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse HttpRoutes::answer_health() const {
  Health health = handlers_.health();
  return {.status = health.is_ok ? 200 : 503, .body = std::move(health.json)};
}

HttpResponse HttpRoutes::answer_page() const {
  HttpResponse response{.body = std::string(handlers_.page),
                        .content_type = "text/html; charset=utf-8"};
  response.headers.emplace_back("Content-Security-Policy", kPagePolicy);
  return response;
}

}  // namespace meg::serving
