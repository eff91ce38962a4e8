// What a store answers: a status, headers, an empty line and a body. Listings, refusals and ranges
// that are taken keep their bounds; what is refused is refused in one line.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/s3/internal/module/store_answers.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

constexpr const char* kAddress = "s3://bucket/key";

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

meg::s3::HttpAnswer answer_of(std::string_view text) {
  meg::s3::HttpAnswer answer;
  const std::string_view status = take_line(text);
  std::from_chars(status.data(), status.data() + status.size(), answer.status);
  for (std::string_view line = take_line(text); !line.empty(); line = take_line(text)) {
    const size_t colon = std::min(line.find(':'), line.size());
    answer.headers[std::string(line.substr(0, colon))] =
        line.substr(std::min(colon + 1, line.size()));
  }
  answer.body = text;
  return answer;
}

void check_one_line(const meg::Status& status) {
  MEG_FUZZ_CHECK(!status.ok() && !status.message().empty());
  MEG_FUZZ_CHECK(
      std::ranges::none_of(status.message(), [](char c) { return c == '\n' || c == 0; }));
}

void check_listing(const std::string& body) {
  const meg::Result<meg::s3::Listing> listing = meg::s3::parse_listing(body);
  if (!listing.has_value()) return check_one_line(listing.error());
  size_t size = listing->continuation_token.size();
  for (const std::string& key : listing->keys) size += key.size();
  // Entities are shorter than what they stand for in no case that stores use.
  MEG_FUZZ_CHECK(size <= body.size());
}

void check_object(const meg::s3::HttpAnswer& answer) {
  const meg::s3::ContentRange range = meg::s3::ContentRange::of(answer.header("content-range"));
  MEG_FUZZ_CHECK(range.begin >= -1 && range.end >= -1 && range.size >= -1);
  for (const int64_t size : {int64_t{0}, int64_t{5}, range.size}) {
    const int64_t end = std::min<int64_t>(5, size);
    const meg::Status status = meg::s3::check_range(answer, kAddress, 0, end, size);
    if (!status.ok()) {
      check_one_line(status);
    } else {
      MEG_FUZZ_CHECK(std::ssize(answer.body) == end && range.size == size);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const meg::s3::HttpAnswer answer = answer_of({reinterpret_cast<const char*>(data), size});
  check_listing(answer.body);
  check_object(answer);
  meg::s3::is_passing(answer);
  check_one_line(meg::s3::refusal(answer, kAddress, "us-east-1"));
  return 0;
}
