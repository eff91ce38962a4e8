#include "libmeg/inference/server/http_routes.h"

#include <fmt/format.h>
#include <httplib.h>

#include <charconv>
#include <string>
#include <utility>

#include "libmeg/core/stopwatch.h"
#include "libmeg/inference/server/listening_socket.h"
#include "libmeg/inference/server/text_answer.h"

namespace meg::inference {
namespace {

constexpr char kJson[] = "application/json";
constexpr int kMaxKeepAlive = 1'000'000;  ///< Requests; what is said to clients, no limit of ours.
constexpr time_t kKeepAliveSeconds = 20;  ///< Also said: less than ClientLimits::idle.

/// The request that this thread is at; httplib hands its handlers no more than text.
struct Exchange {
  ClientConnection* connection = nullptr;
  Stopwatch since_first_byte;
  RequestLog log;
  bool close = false;  ///< Part of the request was left unread.
};

thread_local Exchange* current = nullptr;

/// httplib's view of a connection.
class ConnectionStream : public httplib::Stream {
 public:
  explicit ConnectionStream(ClientConnection& connection) : connection_(connection) {}

  bool is_readable() const override { return true; }

  bool is_writable() const override { return true; }

  ssize_t read(char* into, size_t size) override { return connection_.read(into, size); }

  ssize_t write(const char* from, size_t size) override { return connection_.write(from, size); }

  void get_remote_ip_and_port(std::string&, int&) const override {}

  void get_local_ip_and_port(std::string&, int&) const override {}

  /// httplib asks only to refuse descriptors that select() could not take; poll() takes any.
  socket_t socket() const override { return 0; }

 private:
  ClientConnection& connection_;
};

void refuse(httplib::Response& response, int status, std::string_view message) {
  response.status = status;
  response.set_content(error_answer(message), kJson);
}

/// An answer before the whole request was read: what is left of it must not pass for the next one.
void refuse_unread(httplib::Response& response, int status, std::string_view message) {
  refuse(response, status, message);
  response.set_header("Connection", "close");
  current->close = true;
}

std::string_view error_text(int status) {
  switch (status) {
    case 400:
      return "the request is not HTTP/1.1 as this server reads it";
    case 404:
      return "there is nothing here: PUT /api, GET /health and GET / are";
    case 405:
      return "this path takes another method: PUT or POST for /api, GET for / and /health";
    case 408:
      return "the request took too long to arrive";
    case 414:
      return "the path is too long";
    case 431:
      return "the headers are too long";
    default:
      return "the request could not be answered";
  }
}

/// What httplib refuses by itself gets its sentence here.
void describe_error(const httplib::Request& request, httplib::Response& response) {
  if (!response.body.empty()) return;
  const ClientConnection::Fault fault = current->connection->fault();
  if (fault == ClientConnection::Fault::kTooSlow) response.status = 408;
  if (fault == ClientConnection::Fault::kHeadersTooLarge) response.status = 431;
  if (response.status == 404 &&
      (request.path == "/api" || request.path == "/health" || request.path == "/")) {
    response.status = 405;
    response.set_header("Allow", request.path == "/api" ? "PUT, POST" : "GET");
  }
  refuse_unread(response, response.status, error_text(response.status));
}

}  // namespace

class HttpRoutes::Router : private httplib::Server {
 public:
  Router(HttpHandlers handlers, size_t max_request_bytes);

  bool answer_one(ClientConnection& connection, bool last);

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  void add_routes();
  void answer_api(const Request& request, Response& response,
                  const httplib::ContentReader& reader) const;
  bool check_length(const Request& request, Response& response) const;
  bool read_body(const httplib::ContentReader& reader, Response& response, std::string* body) const;
  std::string too_large() const;
  void log(const Request& request, const Response& response) const;

  const HttpHandlers handlers_;
  const size_t max_request_bytes_;
};

HttpRoutes::Router::Router(HttpHandlers handlers, size_t max_request_bytes)
    : handlers_(std::move(handlers)), max_request_bytes_(max_request_bytes) {
  set_keep_alive_max_count(kMaxKeepAlive);
  set_keep_alive_timeout(kKeepAliveSeconds);
  set_error_handler(httplib::Server::Handler(describe_error));
  set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
        refuse(response, 500, "the server failed at this request");
      });
  // Before the answer is sent, so that who has it finds its line.
  set_post_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    log(request, response);
  });
  add_routes();
}

void HttpRoutes::Router::add_routes() {
  const httplib::Server::HandlerWithContentReader api =
      [this](const httplib::Request& request, httplib::Response& response,
             const httplib::ContentReader& reader) { answer_api(request, response, reader); };
  Put("/api", api);
  Post("/api", api);
  Get("/health", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(handlers_.health(), kJson);
  });
  Get("/", [this](const httplib::Request&, httplib::Response& response) {
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; script-src "
                        "'unsafe-inline'; connect-src 'self'; img-src data:");
    response.set_content(handlers_.page.data(), handlers_.page.size(), "text/html; charset=utf-8");
  });
}

bool HttpRoutes::Router::answer_one(ClientConnection& connection, bool last) {
  Exchange exchange;
  exchange.connection = &connection;
  exchange.log.client = peer_address(connection.socket());
  current = &exchange;
  ConnectionStream stream(connection);
  bool closed = false;
  const bool answered = process_request(stream, last, closed, [&](Request& request) {
    connection.headers_are_read();
    if (request.method != "PUT" && request.method != "POST") connection.request_is_read();
  });
  current = nullptr;
  return answered && !closed && !exchange.close && !last;
}

void HttpRoutes::Router::answer_api(const Request& request, Response& response,
                                    const httplib::ContentReader& reader) const {
  std::string body;
  if (!check_length(request, response) || !read_body(reader, response, &body)) return;
  current->connection->request_is_read();
  const ApiAnswer answer = handlers_.api(body, current->connection->socket());
  RequestLog& line = current->log;
  line.prompts = answer.prompts;
  line.prompt_tokens = answer.prompt_tokens;
  line.new_tokens = answer.new_tokens;
  line.first_prompt = answer.first_prompt;
  if (answer.status == kClientGone) {
    return refuse_unread(response, kClientGone, "the connection was closed before the answer");
  }
  response.status = answer.status;
  if (answer.status == 503) response.set_header("Retry-After", "1");
  response.set_content(answer.body, kJson);
}

bool HttpRoutes::Router::check_length(const Request& request, Response& response) const {
  if (request.is_multipart_form_data()) {
    refuse_unread(response, 415, "the request must be JSON, not a form");
    return false;
  }
  if (!request.has_header("Content-Length")) {
    if (request.has_header("Transfer-Encoding")) return true;
    refuse_unread(response, 411, "the request has no Content-Length");
    return false;
  }
  const std::string text = request.get_header_value("Content-Length");
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    refuse_unread(response, 400, "Content-Length must be a number of bytes");
    return false;
  }
  if (error == std::errc::result_out_of_range || length > max_request_bytes_) {
    refuse_unread(response, 413, too_large());
    return false;
  }
  return true;
}

bool HttpRoutes::Router::read_body(const httplib::ContentReader& reader, Response& response,
                                   std::string* body) const {
  bool fits = true;
  const bool read = reader([&](const char* data, size_t size) {
    fits = size <= max_request_bytes_ - body->size();
    if (fits) body->append(data, size);
    return fits;
  });
  if (!fits) {
    refuse_unread(response, 413, too_large());
  } else if (current->connection->fault() == ClientConnection::Fault::kTooSlow) {
    refuse_unread(response, 408, error_text(408));
  } else if (!read) {
    refuse_unread(response, 400, "the request ended before all of it had come");
  }
  return read && fits;
}

std::string HttpRoutes::Router::too_large() const {
  return fmt::format("the request is larger than {} bytes", max_request_bytes_);
}

void HttpRoutes::Router::log(const Request& request, const Response& response) const {
  if (!handlers_.log) return;
  RequestLog& line = current->log;
  line.method = request.method;
  line.path = request.path;
  line.status = response.status;
  line.seconds = current->since_first_byte.seconds();
  handlers_.log(line);
}

HttpRoutes::HttpRoutes(HttpHandlers handlers, size_t max_request_bytes)
    : router_(std::make_unique<Router>(std::move(handlers), max_request_bytes)) {}

HttpRoutes::~HttpRoutes() = default;

bool HttpRoutes::answer_one(ClientConnection& connection, bool last) const {
  return router_->answer_one(connection, last);
}

}  // namespace meg::inference
