// What a client sends on one connection: requests that keep their bounds, until one is refused with
// one line or the bytes end.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/serving/http/internal/http_request.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/serving/sent_bytes.h"

namespace {

using meg::serving::HttpError;
using meg::serving::HttpRequest;

constexpr size_t kMaxBytes = 1000;

void check(const meg::serving::HttpError& error) {
  MEG_FUZZ_CHECK(error.status >= 400 && error.status <= 505);
  MEG_FUZZ_CHECK(!error.message.empty() && error.message.size() < 300);
  MEG_FUZZ_CHECK(error.message.find('\n') == std::string::npos);
}

void check(const meg::serving::HttpRequest& request) {
  MEG_FUZZ_CHECK(request.path.starts_with('/'));
  MEG_FUZZ_CHECK(request.path.size() <= meg::serving::kMaxRequestLine);
  size_t size = 0;
  for (const auto& [name, value] : request.headers) {
    size += name.size() + value.size();
    MEG_FUZZ_CHECK(!name.empty());
    MEG_FUZZ_CHECK(std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; }));
    MEG_FUZZ_CHECK(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
  MEG_FUZZ_CHECK(size <= meg::serving::kMaxHeaders);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meg::test::SentBytes sent({reinterpret_cast<const char*>(data), size});
  meg::serving::ClientConnection connection = sent.accept();
  while (connection.wait_for_request()) {
    meg::serving::HttpReader reader(connection);
    meg::serving::HttpRequest request;
    std::string body;
    auto error = reader.read_head(&request);
    if (!error) check(request);
    if (!error && !reader.is_at_end()) error = reader.read_body(kMaxBytes, &body);
    MEG_FUZZ_CHECK(body.size() <= kMaxBytes);
    MEG_FUZZ_CHECK(error.has_value() != reader.is_at_end());
    if (!error) continue;
    check(*error);
    break;
  }
  return 0;
}
