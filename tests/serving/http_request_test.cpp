#include "libmeg/serving/http/internal/http_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/serving/sent_bytes.h"

namespace meg::serving {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMaxBytes = 100;

/// What a request on a connection of its own is read as.
struct Read {
  explicit Read(const std::string& bytes) {
    test::SentBytes sent(bytes);
    ClientConnection connection = sent.accept();
    EXPECT_TRUE(connection.wait_for_request());
    HttpReader reader(connection);
    error = reader.read_head(&request);
    if (!error && !reader.is_at_end()) error = reader.read_body(kMaxBytes, &body);
    is_at_end = reader.is_at_end();
  }

  int status() const { return error ? error->status : 200; }

  std::string message() const { return error ? error->message : ""; }

  HttpRequest request;
  std::string body;
  std::optional<HttpError> error;
  bool is_at_end = false;
};

Read put(const std::string& headers, const std::string& body = "") {
  return Read("PUT /api HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body);
}

TEST(HttpRequestTest, ReadsLineHeadersAndBody) {
  const Read read(
      "PUT /api?query HTTP/1.1\r\nhOST: localhost:5000\r\nX-Empty:\r\nX-Blank: \t a b \t\r\n"
      "Content-Length: 5\r\n\r\nHello");
  ASSERT_FALSE(read.error) << read.message();
  EXPECT_EQ(read.request.method, "PUT");
  EXPECT_EQ(read.request.path, "/api");
  EXPECT_EQ(read.request.host, "localhost:5000");
  EXPECT_EQ(*read.request.header("x-empty"), "");
  EXPECT_EQ(*read.request.header("x-blank"), "a b");
  EXPECT_EQ(read.request.header("x-none"), nullptr);
  EXPECT_EQ(read.body, "Hello");
  EXPECT_TRUE(read.is_at_end);
}

TEST(HttpRequestTest, ReadsAbsoluteTargets) {
  const Read read("GET HTTP://127.0.0.1:5000/health?x HTTP/1.1\r\nHost: evil\r\n\r\n");
  ASSERT_FALSE(read.error) << read.message();
  EXPECT_EQ(read.request.path, "/health");
  EXPECT_EQ(read.request.host, "127.0.0.1:5000");
  EXPECT_EQ(Read("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n").request.path, "/");
  EXPECT_EQ(Read("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n").status(), 400);
}

TEST(HttpRequestTest, KeepsAliveAsVersionAndHeaderSay) {
  const auto keep_alive = [](const std::string& version, const std::string& header) {
    return Read("GET / HTTP/" + version + "\r\nHost: a\r\n" + header + "\r\n").request.keep_alive;
  };
  EXPECT_TRUE(keep_alive("1.1", ""));
  EXPECT_FALSE(keep_alive("1.1", "Connection: x, Close\r\n"));
  EXPECT_FALSE(keep_alive("1.0", ""));
  EXPECT_TRUE(keep_alive("1.0", "Connection: Keep-Alive\r\n"));
}

TEST(HttpRequestTest, ReadsChunks) {
  const Read read = put("Transfer-Encoding: Chunked\r\n",
                        "3\r\nHel\r\n0002;name=value\r\nlo\r\n0\r\nTrailer: x\r\n\r\n");
  ASSERT_FALSE(read.error) << read.message();
  EXPECT_EQ(read.body, "Hello");
  EXPECT_TRUE(read.is_at_end);
}

TEST(HttpRequestTest, EveryLineIsBounded) {
  const std::string many(100'000, '1');
  EXPECT_EQ(Read("GET /" + many).status(), 414);
  EXPECT_EQ(put("X: " + many).status(), 431);
  std::string headers;
  for (int i = 0; i < 2000; ++i) headers += "Range: 0-0\r\n";
  EXPECT_EQ(put(headers).status(), 431);
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_THAT(put(chunked, many).message(), HasSubstr("longer than 256 bytes"));
  EXPECT_THAT(put(chunked, "1;" + many).message(), HasSubstr("longer than 256 bytes"));
  EXPECT_EQ(put(chunked, "0\r\nX: " + many).status(), 431);
  EXPECT_EQ(put(chunked, "1\r\na" + many).status(), 400);
}

TEST(HttpRequestTest, BodiesAreBounded) {
  EXPECT_EQ(put("Content-Length: 101\r\n").status(), 413);
  EXPECT_EQ(put("Content-Length: 99999999999999999999999\r\n").status(), 413);
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(put(chunked, "65\r\n").status(), 413);
  EXPECT_EQ(put(chunked, "60\r\n" + std::string(96, 'a') + "\r\n5\r\n").status(), 413);
  EXPECT_EQ(put(chunked, "ffffffffffffffffffff\r\n").status(), 413);
}

TEST(HttpRequestTest, WhatTwoReadersCouldReadDifferentlyIsRefused) {
  const std::string length = "Content-Length: 5\r\n", chunked = "Transfer-Encoding: chunked\r\n";
  const std::vector<std::pair<std::string, int>> headers = {
      {length + chunked, 400},
      {length + "Content-Length: 6\r\n", 400},
      {"Content-Length: 5, 5\r\n", 400},
      {"Content-Length: +5\r\n", 400},
      {"Content-Length:\r\n", 400},
      {"Content-Length : 5\r\n", 400},
      {" folded\r\n", 400},
      {"no colon\r\n", 400},
      {"Host: two\r\n", 400},
      {"X: a\rb\r\n", 400},
      {"X: a\nY: b\r\n", 400},
      {std::string("X: a\0b\r\n", 8), 400},
      {"Transfer-Encoding: gzip\r\n", 501},
      {"Transfer-Encoding: gzip, chunked\r\n", 501},
      {chunked + chunked, 501},
      {"Content-Encoding: gzip\r\n" + length, 415},
      {"Expect: a miracle\r\n" + length, 417},
  };
  for (const auto& [lines, status] : headers) {
    const Read read = put(lines, "Hello");
    EXPECT_EQ(read.status(), status) << lines << read.message();
    EXPECT_FALSE(read.is_at_end) << lines;
  }
  EXPECT_EQ(put(length + length, "Hello").body, "Hello");
  EXPECT_EQ(Read("PUT / HTTP/1.0\r\n" + chunked + "\r\n0\r\n\r\n").status(), 400);
}

TEST(HttpRequestTest, WrongLinesAreRefused) {
  const std::string rest = "\r\nHost: a\r\n\r\n";
  for (const std::string line : {"", "GET", "GET /", "GET / HTTP/1", "GET  / HTTP/1.1", "GET / x",
                                 "G@T / HTTP/1.1", "GET a HTTP/1.1", "GET /\x01 HTTP/1.1"}) {
    EXPECT_EQ(Read(line + rest).status(), 400) << line;
  }
  EXPECT_EQ(Read("GET / HTTP/2.0" + rest).status(), 505);
  EXPECT_THAT(Read("GET / HTTP/1.1\r\n\r\n").message(), HasSubstr("one Host header, found 0"));
  EXPECT_EQ(Read("GET / HTTP/1.0\r\n\r\n").status(), 200);
}

TEST(HttpRequestTest, WrongChunksAreRefused) {
  for (const std::string body : {"x\r\n", "\r\n", "-1\r\n", "5 x\r\n", "2\r\nHello\r\n0\r\n\r\n",
                                 "5\r\nHel", "5\r\nHello\r\n", "5\nHello\r\n0\r\n\r\n"}) {
    const Read read = put("Transfer-Encoding: chunked\r\n", body);
    EXPECT_EQ(read.status(), 400) << body;
    EXPECT_FALSE(read.is_at_end) << body;
  }
}

TEST(HttpRequestTest, AClientThatWaitsForItGetsContinue) {
  test::SentBytes sent(
      "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na");
  ClientConnection connection = sent.accept();
  ASSERT_TRUE(connection.wait_for_request());
  HttpReader reader(connection);
  HttpRequest request;
  std::string body;
  ASSERT_FALSE(reader.read_head(&request));
  char answer[100];
  EXPECT_LT(::recv(sent.client.get(), answer, sizeof(answer), 0), 0) << "not before it is read";
  ASSERT_FALSE(reader.read_body(kMaxBytes, &body));
  const ssize_t size = ::recv(sent.client.get(), answer, sizeof(answer), 0);
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string(answer, static_cast<size_t>(size)), "HTTP/1.1 100 Continue\r\n\r\n");
}

}  // namespace
}  // namespace meg::serving
