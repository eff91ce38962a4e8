#include "libmeg/s3/internal/module/http_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <string_view>
#include <utility>

namespace meg::s3 {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kSilentSeconds = 30;

/// Headers of one answer; further ones are dropped.
constexpr size_t kMaxHeaders = 256;

struct Exchange {
  const HttpRequest& request;
  HttpAnswer answer;
  bool is_too_long = false;
};

// libcurl is C: nothing may be thrown through it. A count other than the one given ends the
// request.

size_t take_body(const char* bytes, size_t, size_t count, void* opaque) noexcept {
  auto& exchange = *static_cast<Exchange*>(opaque);
  std::string& body = exchange.answer.body;
  // Written as a difference, which cannot overflow.
  exchange.is_too_long = count > exchange.request.max_body - body.size();
  if (exchange.is_too_long) return 0;
  try {
    body.append(bytes, count);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return count;
}

void add_header(std::string_view line, HttpAnswer& answer) {
  // If there are several answers, such as `100 Continue` first, the last one counts.
  if (line.starts_with("HTTP/")) answer.headers.clear();
  const size_t colon = line.find(':');
  if (colon == line.npos || answer.headers.size() == kMaxHeaders) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kBlank = " \t\r\n";
  std::string_view value = line.substr(colon + 1);
  value.remove_prefix(std::min(value.find_first_not_of(kBlank), value.size()));
  value = value.substr(0, value.find_last_not_of(kBlank) + 1);
  answer.headers[std::move(name)] = value;
}

size_t take_header(const char* bytes, size_t, size_t count, void* opaque) noexcept {
  try {
    add_header({bytes, count}, static_cast<Exchange*>(opaque)->answer);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return count;
}

int is_interrupted(void* opaque, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  const auto* const interrupted = static_cast<Exchange*>(opaque)->request.interrupted;
  return interrupted != nullptr && *interrupted ? 1 : 0;
}

/// Errors of the way to the store. Those of certificates, addresses and protocols will not pass.
bool may_succeed_later(CURLcode code) {
  constexpr CURLcode kPassing[] = {CURLE_COULDNT_RESOLVE_PROXY,
                                   CURLE_COULDNT_RESOLVE_HOST,
                                   CURLE_COULDNT_CONNECT,
                                   CURLE_PARTIAL_FILE,
                                   CURLE_OPERATION_TIMEDOUT,
                                   CURLE_SSL_CONNECT_ERROR,
                                   CURLE_GOT_NOTHING,
                                   CURLE_SEND_ERROR,
                                   CURLE_RECV_ERROR,
                                   CURLE_HTTP2,
                                   CURLE_HTTP2_STREAM,
                                   CURLE_WEIRD_SERVER_REPLY};
  return std::find(std::begin(kPassing), std::end(kPassing), code) != std::end(kPassing);
}

/// The certificates that this system trusts, or nothing if they are in none of the usual places.
/// libcurl looks where they were on the system that it was built on.
std::string trusted_certificates() {
  for (const char* const file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/ca-bundle.pem",
                                 "/etc/pki/tls/certs/ca-bundle.crt"}) {
    if (::access(file, R_OK) == 0) return file;
  }
  return {};
}

void initialise_curl() {
  static const CURLcode done = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)done;  // What failed fails at the first request again.
}

}  // namespace

/// A libcurl handle, which keeps its connection open between requests.
class HttpClient::Connection {
 public:
  explicit Connection(const StoreSettings& settings) : curl_(::curl_easy_init()) {
    if (curl_ == nullptr) throw std::bad_alloc();
    // Without it libcurl may end slow look-ups of names by SIGALRM, which threads share.
    ::curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    // An endpoint that a file names must not become a way to read local files.
    ::curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    // Keys such as a/../b are names, not paths.
    ::curl_easy_setopt(curl_, CURLOPT_PATH_AS_IS, 1L);
    ::curl_easy_setopt(curl_, CURLOPT_AWS_SIGV4, ("aws:amz:" + settings.region + ":s3").c_str());
    ::curl_easy_setopt(curl_, CURLOPT_USERNAME, settings.access_key.c_str());
    ::curl_easy_setopt(curl_, CURLOPT_PASSWORD, settings.secret_key.c_str());
    ::curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    // No limit of time for a whole answer, which may be large: only silence ends it.
    ::curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, 1L);
    ::curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    ::curl_easy_setopt(curl_, CURLOPT_BUFFERSIZE, static_cast<long>(256) << 10);
    ::curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, error_);
    ::curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, take_body);
    ::curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, take_header);
    ::curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
    ::curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, is_interrupted);
    const std::string certificates =
        settings.certificates.empty() ? trusted_certificates() : settings.certificates;
    if (certificates.empty()) return;
    ::curl_easy_setopt(curl_, CURLOPT_CAINFO, certificates.c_str());
  }

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  ~Connection() { ::curl_easy_cleanup(curl_); }

  Result<HttpAnswer> get(const HttpRequest& request) {
    Exchange exchange{.request = request, .answer = {}};
    curl_slist* headers = nullptr;
    for (const std::string& header : request.headers) {
      headers = ::curl_slist_append(headers, header.c_str());
    }
    ::curl_easy_setopt(curl_, CURLOPT_URL, request.url.c_str());
    ::curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers);
    ::curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &exchange);
    ::curl_easy_setopt(curl_, CURLOPT_HEADERDATA, &exchange);
    ::curl_easy_setopt(curl_, CURLOPT_XFERINFODATA, &exchange);
    error_[0] = '\0';
    const CURLcode code = ::curl_easy_perform(curl_);
    // The handle lives on and keeps pointers only.
    ::curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, nullptr);
    ::curl_slist_free_all(headers);
    if (code != CURLE_OK) return error(code, exchange);
    ::curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &exchange.answer.status);
    return std::move(exchange.answer);
  }

 private:
  Status error(CURLcode code, const Exchange& exchange) const {
    if (code == CURLE_ABORTED_BY_CALLBACK) return Status(StatusCode::kCancelled, "interrupted");
    if (exchange.is_too_long) {
      return make_error(StatusCode::kUnsupported, "expected an answer of at most {} bytes",
                        exchange.request.max_body);
    }
    const StatusCode kind =
        may_succeed_later(code) ? StatusCode::kIoError : StatusCode::kUnsupported;
    return Status(kind, error_[0] != '\0' ? error_ : ::curl_easy_strerror(code));
  }

  CURL* curl_;
  char error_[CURL_ERROR_SIZE] = "";
};

HttpClient::HttpClient(const StoreSettings& settings) : settings_(settings) { initialise_curl(); }

HttpClient::~HttpClient() = default;

Result<HttpAnswer> HttpClient::get(const HttpRequest& request) const {
  std::unique_ptr<Connection> connection = take();
  Result<HttpAnswer> answer = connection->get(request);
  give_back(std::move(connection));
  return answer;
}

std::unique_ptr<HttpClient::Connection> HttpClient::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  // There are never more than requests at once, whose number the callers' threads bound.
  return std::make_unique<Connection>(settings_);
}

void HttpClient::give_back(std::unique_ptr<Connection> connection) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

}  // namespace meg::s3
