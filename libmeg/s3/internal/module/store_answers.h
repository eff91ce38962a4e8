#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/s3/internal/module/http_client.h"

namespace meg::s3 {

/// Whether the same request may be answered otherwise in a while.
bool is_passing(const HttpAnswer& answer);

/// Why an answer, whose status is no success, is none. address: that was asked for; region: of the
/// request.
Status refusal(const HttpAnswer& answer, const std::string& address, const std::string& region);

/// One answer to ListObjectsV2.
struct Listing {
  std::vector<std::string> keys;
  std::string continuation_token;  ///< Of the next request; empty: there are no more keys.
};

/// kCorruption where the text is no such answer.
Result<Listing> parse_listing(std::string_view xml);

}  // namespace meg::s3
