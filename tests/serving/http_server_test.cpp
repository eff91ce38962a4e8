#include "libmeg/serving/http/http_server.h"

#include <gtest/gtest.h>

namespace meg::serving {
namespace {

std::string address_at(const std::string& host) {
  HttpServerOptions options;
  options.host = host;
  options.port = 0;
  const auto server = HttpServer::start(options, {});
  if (!server.has_value()) return server.error().message();
  const std::string address = (*server)->address();
  const std::string port = ":" + std::to_string((*server)->port());
  if (!address.ends_with(port)) return address;
  return address.substr(0, address.size() - port.size());
}

TEST(HttpServer, TellsItsAddressAsUrlsHaveIt) {
  EXPECT_EQ(address_at("127.0.0.1"), "127.0.0.1");
  const std::string address = address_at("::1");
  if (address.starts_with("cannot listen on [::1]:0: ")) GTEST_SKIP() << address;
  EXPECT_EQ(address, "[::1]");
}

}  // namespace
}  // namespace meg::serving
