#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/s3/internal/module/http_client.h"

namespace meg::s3 {

/// Whether the same request may be answered otherwise in a while.
bool is_passing(const HttpAnswer& answer);

/// Why an answer, whose status is no success, is none. address: that was requested; region: of the
/// request.
Status refusal(const HttpAnswer& answer, const std::string& address, const std::string& region);

/// The numbers of `bytes 0-9/100`; of `bytes */100` only the last. -1 for missing or invalid
/// numbers.
struct ContentRange {
  int64_t begin = -1, end = -1, size = -1;

  static ContentRange of(std::string_view text);
};

/// Checks that an answer has bytes [begin, end) of an object of `size` bytes. kIoError if it is
/// another object, kCorruption for other bytes.
Status check_range(const HttpAnswer& answer, const std::string& address, int64_t begin, int64_t end,
                   int64_t size);

/// One answer to ListObjectsV2.
struct Listing {
  std::vector<std::string> keys;
  std::string continuation_token;  ///< For the next request; empty: there are no more keys.
};

/// kCorruption if the text is not such an answer.
Result<Listing> parse_listing(std::string_view xml);

}  // namespace meg::s3
