#include "libmeg/serving/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

namespace meg::serving {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HttpResponse text(std::string body) {
  return {.body = std::move(body), .content_type = "text/plain"};
}

HttpResponse shouting_error(int status, std::string_view message) {
  return {.status = status, .body = "ERROR " + std::string(message)};
}

class HttpServerTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Answers /echo, /piece, /stream, /short, and all of /files/.
  void start() {
    options_.port = 0;
    HttpService service;
    service.log = [this](const RequestLog& line) {
      const std::lock_guard lock(mutex_);
      statuses_.push_back(line.status);
    };
    service.routes = {
        {.methods = {"PUT", "POST"},
         .path = "/echo",
         .takes_json = true,
         .handler = [](const HttpCall& call) { return text(std::string(call.body)); }},
        {.methods = {"GET"},
         .path = "/piece",
         .handler = [](const HttpCall&) { return pieces(3); }},
        {.methods = {"GET"},
         .path = "/stream",
         .handler = [](const HttpCall&) { return pieces(std::nullopt); }},
        {.methods = {"GET"},
         .path = "/short",
         .handler = [](const HttpCall&) { return pieces(4); }},
        {.methods = {"GET"},
         .path = "/open",
         .is_open = true,
         .handler = [](const HttpCall&) { return text("open"); }},
        {.path = "/files/",
         .is_prefix = true,
         .handler =
             [](const HttpCall& call) {
               const std::string* range = call.request.header("range");
               return text(call.request.method + " " + call.request.path + " " +
                           call.request.parameter("q").value_or("-") + " " +
                           (range == nullptr ? "-" : *range));
             },
         .error_form = shouting_error},
        {.methods = {"GET", "POST"},
         .path = "/form",
         .takes_form = true,
         .handler =
             [](const HttpCall& call) {
               std::string fields = call.request.method;
               for (const auto& [name, value] : form_fields(call.body)) {
                 fields += " " + name + "=" + value;
               }
               return text(fields);
             }},
        {.path = "/files/own/", .is_prefix = true, .handler = [](const HttpCall&) {
           return text("own");
         }}};
    auto started = HttpServer::start(options_, std::move(service));
    ASSERT_TRUE(started.has_value()) << started.error().message();
    server_ = std::move(*started);
  }

  static HttpResponse pieces(std::optional<uint64_t> length) {
    HttpResponse response = text("");
    response.length = length;
    response.write = [](HttpBodyWriter& writer) {
      EXPECT_TRUE(writer.write("a"));
      EXPECT_TRUE(writer.write(""));
      EXPECT_TRUE(writer.write("bc"));
    };
    return response;
  }

  /// All that comes back for these bytes.
  std::string raw(const std::string& bytes) {
    const bool is_unix = options_.host.starts_with("unix:");
    const int socket = ::socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    sockaddr_in internet = {};
    internet.sin_family = AF_INET;
    internet.sin_port = htons(static_cast<uint16_t>(server_->port()));
    internet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_un local = {};
    local.sun_family = AF_UNIX;
    if (is_unix) options_.host.substr(5).copy(local.sun_path, sizeof(local.sun_path) - 1);
    const auto* address = is_unix ? reinterpret_cast<const sockaddr*>(&local)
                                  : reinterpret_cast<const sockaddr*>(&internet);
    EXPECT_EQ(::connect(socket, address, is_unix ? sizeof local : sizeof internet), 0);
    EXPECT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string answer;
    pollfd ready{socket, POLLIN, 0};
    char part[4096];
    for (ssize_t n = 1; n > 0 && ::poll(&ready, 1, 20000) == 1;) {
      n = ::recv(socket, part, sizeof part, 0);
      if (n > 0) answer.append(part, static_cast<size_t>(n));
    }
    ::close(socket);
    return answer;
  }

  std::string ask(const std::string& line, const std::string& headers = "") {
    return raw(line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n");
  }

  std::string socket_path() {
    char folder[] = "/tmp/http_server_test_XXXXXX";
    if (folder_.empty()) folder_ = ::mkdtemp(folder);
    return folder_ + "/socket";
  }

  std::string folder_;
  HttpServerOptions options_;
  std::mutex mutex_;
  std::vector<int> statuses_;
  std::unique_ptr<HttpServer> server_;  // last: until it is gone, its threads log
};

TEST_F(HttpServerTest, APostMayBringAForm) {
  start();
  const auto post = [&](const std::string& type, const std::string& body) {
    return raw("POST /form HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: " +
               type + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  const std::string form = "application/x-www-form-urlencoded";
  EXPECT_THAT(post(form, "a=1+2&b=%2F&&c&a=3&d=%zz"), EndsWith("\r\n\r\nPOST a=1 2 b=/ c= a=3"));
  EXPECT_THAT(post("application/json", "{}"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(post("text/plain", "a=1"), StartsWith("HTTP/1.1 415 "));
  EXPECT_THAT(ask("GET /form"), EndsWith("\r\n\r\nGET"));
}

TEST_F(HttpServerTest, TellsItsAddressAsUrlsHaveIt) {
  start();
  EXPECT_EQ(server_->address(), "http://127.0.0.1:" + std::to_string(server_->port()));
  options_.host = "::1";
  options_.port = 0;
  const auto other = HttpServer::start(options_, {});
  if (!other.has_value()) GTEST_SKIP() << other.error().message();
  EXPECT_THAT((*other)->address(), StartsWith("http://[::1]:"));
}

TEST_F(HttpServerTest, TakesTheRouteOfThePathOrTheLongestPrefix) {
  start();
  EXPECT_THAT(ask("GET /files/a%20b?q=x+%26&q=y", "Range: bytes=0-1\r\n"),
              EndsWith("\r\n\r\nGET /files/a b x & bytes=0-1"));
  EXPECT_THAT(ask("DELETE /files/"), EndsWith("\r\n\r\nDELETE /files/ - -"));
  EXPECT_THAT(ask("GET /files/own/x"), EndsWith("\r\n\r\nown"));
  EXPECT_THAT(ask("GET /files"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("GET /piece/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("PUT /piece"), AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")));
}

TEST_F(HttpServerTest, ErrorsHaveTheFormOfTheRoute) {
  start();
  EXPECT_THAT(ask("GET /files/", "Origin: http://evil.example\r\n"),
              AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("ERROR this server does not")));
  EXPECT_THAT(ask("PUT /echo", "Content-Length: 2\r\n"),
              AllOf(StartsWith("HTTP/1.1 415 "), HasSubstr("{\"message\":")));
}

TEST_F(HttpServerTest, RefusesPathsThatLeadUpwardsOrAreWronglyEncoded) {
  start();
  for (const char* path :
       {"/files/../x", "/files/%2e%2e/x", "/files/..%2fx", "/files/.", "/files/..", "/files/%00",
        "/files/%", "/files/%4", "/files/%zz", "/files/%-1"}) {
    EXPECT_THAT(ask(std::string("GET ") + path), StartsWith("HTTP/1.1 400 ")) << path;
  }
  EXPECT_THAT(ask("GET /files/..x"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, BodiesOfKnownLengthHaveIt) {
  start();
  const std::string answer = ask("GET /piece");
  EXPECT_THAT(answer, AllOf(HasSubstr("Content-Length: 3\r\n"), EndsWith("\r\n\r\nabc")));
  EXPECT_EQ(ask("HEAD /piece"), answer.substr(0, answer.size() - 3));
  const std::string two = raw("GET /piece HTTP/1.1\r\nHost: x.\r\n\r\nGET /piece HTTP/1.0\r\n\r\n");
  EXPECT_THAT(two, StartsWith("HTTP/1.1 403 "));
}

TEST_F(HttpServerTest, OthersAreSentInChunksOrEndWithTheConnection) {
  start();
  EXPECT_THAT(ask("GET /stream"), AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"),
                                        EndsWith("\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n")));
  EXPECT_THAT(raw("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
              AllOf(HasSubstr("Connection: close\r\n"), Not(HasSubstr("Content-Length")),
                    EndsWith("\r\n\r\nabc")));
}

TEST_F(HttpServerTest, ABodyThatEndsTooEarlyClosesTheConnection) {
  start();
  const std::string one = "GET /short HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_THAT(raw(one + one), AllOf(HasSubstr("Content-Length: 4\r\n"), EndsWith("\r\n\r\nabc")));
  server_->stop();
  EXPECT_EQ(statuses_, std::vector<int>{kClientGone});
}

TEST_F(HttpServerTest, OnlyOpenRoutesAreAnsweredWithoutAKey) {
  options_.api_keys = {"first", "second key"};
  start();
  for (const char* wrong : {"", "Authorization: Bearer firs\r\n",
                            "Authorization: Bearer first2\r\n", "Authorization: first\r\n",
                            "Authorization: Basic first\r\n", "Authorization: Bearer \r\n"}) {
    EXPECT_THAT(ask("GET /piece", wrong), AllOf(StartsWith("HTTP/1.1 401 Unauthorized"),
                                                HasSubstr("WWW-Authenticate: Bearer\r\n")))
        << wrong;
    EXPECT_THAT(ask("GET /nothing", wrong), StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(ask("GET /open", wrong), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_THAT(ask("GET /piece", "Authorization: Bearer first\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("GET /piece", "Authorization: bearer second key\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, PagesOfOthersReadAnswersOnlyWhereTheyMay) {
  options_.cors_origins = {"https://lab.example"};
  start();
  const std::string lab = "Origin: https://lab.example\r\n";
  EXPECT_THAT(ask("GET /open", lab), AllOf(StartsWith("HTTP/1.1 200 "),
                                           HasSubstr("Access-Control-Allow-Origin: "
                                                     "https://lab.example\r\n"),
                                           HasSubstr("Vary: Origin\r\n")));
  EXPECT_THAT(ask("OPTIONS /echo", lab),
              AllOf(StartsWith("HTTP/1.1 204 "), HasSubstr("Access-Control-Allow-Headers: "),
                    Not(HasSubstr("Content-Length"))));
  for (const char* other : {"https://lab.example.org", "http://lab.example", "null"}) {
    EXPECT_THAT(ask("OPTIONS /echo", std::string("Origin: ") + other + "\r\n"),
                AllOf(StartsWith("HTTP/1.1 403 "), Not(HasSubstr("Access-Control"))));
  }
  EXPECT_THAT(ask("GET /open", lab + lab), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, AnswersToTheNameOfThisMachine) {
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  start();
  EXPECT_THAT(raw(std::string("GET /open HTTP/1.0\r\nHost: ") + name + "\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, ListensOnAUnixSocketOfThisUser) {
  options_.host = "unix:" + socket_path();
  start();
  EXPECT_EQ(server_->address(), options_.host);

  struct stat file {};

  ASSERT_EQ(::stat(socket_path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_THAT(ask("GET /open"), StartsWith("HTTP/1.1 200 "));
  const auto second = HttpServer::start(options_, {});
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message(), EndsWith("the socket is in use"));
  server_->stop();
  EXPECT_FALSE(std::filesystem::exists(socket_path()));
}

TEST_F(HttpServerTest, ReplacesASocketThatNobodyListensOnAndNoOtherFile) {
  options_.host = "unix:" + socket_path();
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket_path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(dead);
  start();
  EXPECT_THAT(ask("GET /open"), StartsWith("HTTP/1.1 200 "));
  options_.host = "unix:" + folder_;
  const auto folder = HttpServer::start(options_, {});
  ASSERT_FALSE(folder.has_value());
  EXPECT_THAT(folder.error().message(), EndsWith("the file is not a socket"));
  options_.host = "unix:/tmp/" + std::string(200, 'x');
  EXPECT_FALSE(HttpServer::start(options_, {}).has_value());
}

}  // namespace
}  // namespace meg::serving
