#include "libmeg/s3/internal/module/store_answers.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <pugixml.hpp>

#include "libmeg/text/printable.h"

namespace meg::s3 {
namespace {

/// What a store says beside the status of HTTP; empty where it says nothing.
struct Fault {
  std::string code, message, region, time;
};

Fault fault_of(const HttpAnswer& answer) {
  pugi::xml_document document;
  document.load_buffer(answer.body.data(), answer.body.size());
  // Where the text is no XML all of it stays empty, and the status speaks.
  const pugi::xml_node error = document.child("Error");
  return {.code = error.child_value("Code"),
          .message = error.child_value("Message"),
          .region = error.child_value("Region"),
          .time = error.child_value("ServerTime")};
}

std::string in_one_line(const std::string& text) { return text::printable_name(text, 200); }

/// The status and, where there is one, the store's name for the fault.
std::string name_of(const HttpAnswer& answer, const Fault& fault) {
  return fault.code.empty() ? fmt::format("HTTP {}", answer.status)
                            : fmt::format("HTTP {} {}", answer.status, in_one_line(fault.code));
}

Status wrong_region(const std::string& address, const std::string& found,
                    const std::string& region) {
  return make_error(StatusCode::kIoError,
                    "{}: the bucket is in region {}: expected it in AWS_REGION, found {}", address,
                    in_one_line(found), region);
}

Status denied(const std::string& address, const HttpAnswer& answer, const Fault& fault) {
  const std::string name = name_of(answer, fault);
  const auto error = [&](std::string_view why) {
    return make_error(StatusCode::kIoError, "{}: {} ({})", address, why, name);
  };
  if (fault.code == "RequestTimeTooSkewed") {
    return error(fmt::format("this machine's clock is wrong: the store has {}",
                             in_one_line(fault.time.empty() ? answer.header("date") : fault.time)));
  }
  if (fault.code == "ExpiredToken" || fault.code == "TokenRefreshRequired") {
    return error("the credentials have expired");
  }
  if (fault.code == "InvalidAccessKeyId" || fault.code == "InvalidToken") {
    return error("the store does not know the access key");
  }
  if (fault.code == "SignatureDoesNotMatch") {
    return error("the secret key does not belong to the access key");
  }
  // Stores hide a bucket's content from whoever may not list it, so both are possible.
  return error("access denied: not allowed to read it, or there is no such object");
}

}  // namespace

bool is_passing(const HttpAnswer& answer) {
  constexpr long kPassing[] = {408, 429, 500, 502, 503, 504};
  if (std::find(std::begin(kPassing), std::end(kPassing), answer.status) != std::end(kPassing)) {
    return true;
  }
  // A connection that was silent for too long, under the status of a wrong request.
  return answer.status == 400 && fault_of(answer).code == "RequestTimeout";
}

Status refusal(const HttpAnswer& answer, const std::string& address, const std::string& region) {
  const Fault fault = fault_of(answer);
  const std::string there =
      fault.region.empty() ? answer.header("x-amz-bucket-region") : fault.region;
  const bool is_redirect = answer.status >= 300 && answer.status < 400;
  // Do not follow it: a signature is for one region, so the request would need another signature.
  if (!there.empty() && there != region && (is_redirect || answer.status == 400)) {
    return wrong_region(address, there, region);
  }
  if (answer.status == 401 || answer.status == 403) return denied(address, answer, fault);
  if (fault.code == "ExpiredToken" || fault.code == "InvalidToken") {
    return denied(address, answer, fault);
  }
  if (answer.status == 404) {
    return make_error(StatusCode::kNotFound, "{}: no such {}", address,
                      fault.code == "NoSuchBucket" ? "bucket" : "object");
  }
  if (answer.status == 412) {
    return make_error(StatusCode::kIoError, "{}: changed while it was read", address);
  }
  const std::string more = is_redirect ? answer.header("location") : fault.message;
  return make_error(StatusCode::kIoError, "{}: the store answered {}{}{}", address,
                    name_of(answer, fault), more.empty() ? "" : ": ", in_one_line(more));
}

ContentRange ContentRange::of(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  ContentRange range;
  const size_t slash = text.find('/');
  const size_t dash = text.find('-');
  if (slash == text.npos || !text.starts_with(kUnit)) return range;
  const auto number = [&](size_t from) -> int64_t {
    // Read without a sign, and below the largest number, to which 1 is added.
    uint64_t value = 0;
    const char* const past = text.data() + text.size();
    const auto [_, error] = std::from_chars(text.data() + from, past, value);
    const bool fits = error == std::errc() && value < std::numeric_limits<int64_t>::max();
    return fits ? static_cast<int64_t>(value) : -1;
  };
  range.size = number(slash + 1);
  if (dash == text.npos || dash > slash) return range;
  range.begin = number(kUnit.size());
  const int64_t last = number(dash + 1);
  range.end = last < 0 ? -1 : last + 1;
  return range;
}

Status check_range(const HttpAnswer& answer, const std::string& address, int64_t begin, int64_t end,
                   int64_t size) {
  const ContentRange found = ContentRange::of(answer.header("content-range"));
  const bool is_asked = found.begin == begin && found.end == end && found.size == size;
  if (is_asked && std::ssize(answer.body) == end - begin) return Status();
  if (found.size >= 0 && found.size != size) {
    return make_error(StatusCode::kIoError,
                      "{}: changed while it was read: expected {} bytes, found {}", address, size,
                      found.size);
  }
  return make_error(StatusCode::kCorruption,
                    "{}: expected bytes {} to {}, found {} bytes of the range {}", address, begin,
                    end - 1, answer.body.size(), in_one_line(answer.header("content-range")));
}

Result<Listing> parse_listing(std::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node root = document.child("ListBucketResult");
  if (!parsed || !root) {
    return make_error(StatusCode::kCorruption, "expected a list of objects, found {}",
                      text::printable(xml));
  }
  Listing listing;
  for (const pugi::xml_node object : root.children("Contents")) {
    listing.keys.emplace_back(object.child_value("Key"));
  }
  listing.continuation_token = root.child_value("NextContinuationToken");
  // Taken for the end, a list would silently lack inputs.
  if (root.child("IsTruncated").text().as_bool() && listing.continuation_token.empty()) {
    return Status(StatusCode::kCorruption,
                  "expected the continuation token of an incomplete list, found none");
  }
  return listing;
}

}  // namespace meg::s3
