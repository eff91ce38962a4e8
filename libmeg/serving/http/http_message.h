#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/serving/http/request_log.h"

namespace meg::serving {

inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kFormType = "application/x-www-form-urlencoded";

/// nginx's number for a client that hung up before its answer.
inline constexpr int kClientGone = 499;

/// The request line and the headers.
struct HttpRequest {
  std::string method;
  /// Begins with a slash; without the query, percent-decoded, and without segments `.` and `..`.
  std::string path;
  std::string query;  ///< What follows the question mark, as it was sent.
  /// The host and port that are requested: those of an absolute target, else the Host header's.
  std::string host;
  bool is_1_1 = true;      ///< Else 1.0.
  bool keep_alive = true;  ///< Whether the client would send another request.
  std::vector<std::pair<std::string, std::string>> headers;  ///< Names in lower case.

  /// The first value of a name in lower case; nullptr without one.
  const std::string* header(std::string_view name) const;

  /// How many headers have this name.
  size_t count(std::string_view name) const;

  /// The Content-Type in lower case, without its parameters; empty without one.
  std::string media_type() const;

  /// The first value of a name in the query, decoded; nullopt without one, or if its
  /// percent-encoding is wrong.
  std::optional<std::string> parameter(std::string_view name) const;
};

/// The names and values of a query or a form, decoded, without those whose percent-encoding is
/// wrong.
std::vector<std::pair<std::string, std::string>> form_fields(std::string_view text);

/// Sends the body of a response piece by piece.
class HttpBodyWriter {
 public:
  virtual ~HttpBodyWriter() = default;

  /// Returns once the system has taken all bytes. False if the client is gone or too slow; nothing
  /// more will be sent then.
  virtual bool write(std::string_view bytes) = 0;
};

/// A response to a client.
struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = std::string(kJsonType);
  /// Headers beside those of every answer.
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// Writes the body instead of `body`, on the same thread, after the handler has returned; not
  /// called for HEAD. If it writes fewer bytes than `length`, the connection closes.
  std::function<void(HttpBodyWriter&)> write = {};
  /// The number of bytes that `write` writes; empty: it is only known at the end, so they are sent
  /// in chunks.
  std::optional<uint64_t> length = {};
};

/// What a handler is told of a request.
struct HttpCall {
  const HttpRequest& request;
  std::string_view body;  ///< Empty where the route takes none.
  int client = -1;        ///< The socket, for poll().
  /// To be completed by the handler or by HttpResponse::write, until which it lives.
  RequestLog& log;

  /// Of the client's machine, without a port.
  std::string client_address() const { return log.client.substr(0, log.client.rfind(':')); }
};

/// Makes the response with an error's status and sentence.
using HttpErrorForm = HttpResponse (*)(int status, std::string_view message);

/// `{"message":...}`, as flask_restful's errors and Megatron's text_generation_cli have it.
HttpResponse message_error(int status, std::string_view message);

/// One entry of a server's table.
struct HttpRoute {
  /// Those it takes; GET includes HEAD. None: all of them.
  std::vector<std::string> methods = {};
  std::string path;
  bool is_prefix = false;  ///< Whether it stands for all paths that begin with `path`.
  /// Whether requests have a body, which must be JSON by its Content-Type.
  bool takes_json = false;
  /// Whether a POST has a body, a form or JSON.
  bool takes_form = false;
  /// Whether it is answered without the server's API key.
  bool is_open = false;
  /// Called from many threads.
  std::function<HttpResponse(const HttpCall&)> handler;
  HttpErrorForm error_form = message_error;
};

}  // namespace meg::serving
