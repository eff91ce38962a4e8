#include "libmeg/serving/http/internal/allowed_hosts.h"

#include <gtest/gtest.h>

namespace meg::serving {
namespace {

int status_of(const std::string& host, const std::string& origin = "") {
  HttpRequest request;
  request.host = host;
  if (!origin.empty()) request.headers.emplace_back("origin", origin);
  const auto error = AllowedHosts({"llm.example.org", "Node7"}).check(request);
  return error ? error->status : 200;
}

TEST(AllowedHostsTest, AnswersToAddressesLocalhostAndItsNames) {
  for (const char* host :
       {"localhost", "LOCALHOST:5000", "localhost.:5000", "127.0.0.1:5000", "10.1.2.3",
        "[::1]:5000", "[fe80::1]", "llm.example.org:443", "", "node7:5000", "NODE7"}) {
    EXPECT_EQ(status_of(host), 200) << host;
  }
}

TEST(AllowedHostsTest, RefusesEveryOtherName) {
  for (const char* host :
       {":5000", "evil.example", "localhost.evil.example", "xlocalhost", "127.0.0.1.evil.example",
        "1.2.3", "0x7f000001", "[::1", "[::1].evil.example", "[]", "[", "::1", "[127.0.0.1]",
        "example.org", "x.llm.example.org", "user@localhost", "127.0.0.1@evil.example"}) {
    EXPECT_EQ(status_of(host), 403) << host;
  }
}

TEST(AllowedHostsTest, AnswersToItsOwnPagesAlone) {
  EXPECT_EQ(status_of("localhost:5000", "http://localhost:5000"), 200);
  EXPECT_EQ(status_of("127.0.0.1:5000", "https://llm.example.org"), 200) << "behind a proxy";
  for (const char* origin : {"null", "http://evil.example", "http://localhost:3000",
                             "http://localhost", "file://", "localhost:5000", "http://"}) {
    EXPECT_EQ(status_of("localhost:5000", origin), 403) << origin;
  }
}

}  // namespace
}  // namespace meg::serving
