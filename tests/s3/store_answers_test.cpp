#include "libmeg/s3/internal/module/store_answers.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace meg::s3 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kAddress = "s3://books/a.jsonl";

HttpAnswer answer(long status, const std::string& body = "",
                  std::map<std::string, std::string> headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = body};
}

std::string error(const std::string& code, const std::string& more = "") {
  return "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code>" + more + "</Error>";
}

TEST(StoreAnswers, OnlyPassingFaultsAreWorthAnotherAttempt) {
  for (const long status : {408, 429, 500, 502, 503, 504}) {
    EXPECT_TRUE(is_passing(answer(status))) << status;
  }
  for (const long status : {200, 206, 301, 307, 400, 401, 403, 404, 412, 416, 501}) {
    EXPECT_FALSE(is_passing(answer(status))) << status;
  }
  EXPECT_TRUE(is_passing(answer(400, error("RequestTimeout"))));
  EXPECT_FALSE(is_passing(answer(400, error("InvalidArgument"))));
}

struct Refusal {
  HttpAnswer answer;
  StatusCode code;
  const char* text;
};

TEST(StoreAnswers, RefusalsSayWhatToDo) {
  const std::vector<Refusal> refusals = {
      {answer(404, error("NoSuchKey")), StatusCode::kNotFound, "no such object"},
      {answer(404, error("NoSuchBucket")), StatusCode::kNotFound, "no such bucket"},
      {answer(404), StatusCode::kNotFound, "no such object"},
      {answer(412), StatusCode::kIoError, "changed while it was read"},
      {answer(403, error("AccessDenied")), StatusCode::kIoError,
       "access denied: not allowed to read it, or there is no such object (HTTP 403 AccessDenied)"},
      {answer(403), StatusCode::kIoError, "(HTTP 403)"},
      {answer(403, error("InvalidAccessKeyId")), StatusCode::kIoError,
       "the store does not know the access key"},
      {answer(403, error("SignatureDoesNotMatch")), StatusCode::kIoError,
       "the secret key does not belong to the access key"},
      {answer(400, error("ExpiredToken")), StatusCode::kIoError, "the credentials have expired"},
      {answer(403, error("RequestTimeTooSkewed", "<ServerTime>2026-01-01</ServerTime>")),
       StatusCode::kIoError, "this machine's clock is wrong: the store has 2026-01-01"},
      {answer(403, error("RequestTimeTooSkewed"), {{"date", "Thu, 01 Jan 2026"}}),
       StatusCode::kIoError, "the store has Thu, 01 Jan 2026"},
      {answer(301, "", {{"x-amz-bucket-region", "eu-west-1"}}), StatusCode::kIoError,
       "the bucket is in region eu-west-1: expected it in AWS_REGION, found us-east-1"},
      {answer(400, error("AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>")),
       StatusCode::kIoError, "the bucket is in region eu-west-1"},
      {answer(307, "", {{"location", "https://other/"}}), StatusCode::kIoError,
       "the store answered HTTP 307: https://other/"},
      {answer(501, "not XML"), StatusCode::kIoError, "the store answered HTTP 501"}};
  for (const Refusal& refused : refusals) {
    const Status status = refusal(refused.answer, kAddress, "us-east-1");
    EXPECT_EQ(status.code(), refused.code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(std::string(kAddress) + ": "));
    EXPECT_THAT(status.message(), HasSubstr(refused.text));
  }
}

TEST(StoreAnswers, TextsOfAStoreStayInOneLine) {
  const Status status = refusal(answer(501, error("Odd", "<Message>two\nlines\x01</Message>")),
                                kAddress, "us-east-1");
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

TEST(StoreAnswers, RangesAreReadWithoutTrust) {
  struct Case {
    const char* text;
    int64_t begin, end, size;
  };

  for (const Case& range : {Case{"bytes 0-9/100", 0, 10, 100},
                            {"bytes 90-99/100", 90, 100, 100},
                            {"bytes */100", -1, -1, 100},
                            {"bytes 0-9/*", 0, 10, -1},
                            {"bytes 0--9/100", 0, -1, 100},
                            {"bytes -5-9/100", -1, 6, 100},
                            {"bytes 0-9223372036854775807/9223372036854775807", 0, -1, -1},
                            {"bytes 0-99999999999999999999/100", 0, -1, 100},
                            {"bytes 0-9", -1, -1, -1},
                            {"items 0-9/100", -1, -1, -1},
                            {"", -1, -1, -1}}) {
    const ContentRange found = ContentRange::of(range.text);
    EXPECT_EQ(found.begin, range.begin) << range.text;
    EXPECT_EQ(found.end, range.end) << range.text;
    EXPECT_EQ(found.size, range.size) << range.text;
  }
}

TEST(StoreAnswers, OnlyTheRangeThatWasAskedForIsTaken) {
  const auto check = [](const char* range, const std::string& body) {
    return check_range(answer(206, body, {{"content-range", range}}), kAddress, 4, 7, 10);
  };
  EXPECT_TRUE(check("bytes 4-6/10", "efg").ok());
  EXPECT_EQ(check("bytes 4-6/11", "efg").code(), StatusCode::kIoError);  // another object
  EXPECT_EQ(check("bytes 3-5/10", "def").code(), StatusCode::kCorruption);
  EXPECT_EQ(check("bytes 4-6/10", "ef").code(), StatusCode::kCorruption);
  EXPECT_EQ(check("", "efg").code(), StatusCode::kCorruption);
}

TEST(StoreAnswers, ListingsHaveTheirKeysAndToken) {
  const Result<Listing> listing = parse_listing(
      "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a&amp;b &#x42F;</Key>"
      "<Size>3</Size></Contents><NextContinuationToken>1+/=</NextContinuationToken>"
      "<Contents><Key>c/</Key></Contents></ListBucketResult>");
  ASSERT_TRUE(listing.has_value()) << listing.error().message();
  EXPECT_THAT(listing->keys, ElementsAre("a&b \u042F", "c/"));
  EXPECT_EQ(listing->continuation_token, "1+/=");
}

TEST(StoreAnswers, AnEmptyListingIsOne) {
  const Result<Listing> listing = parse_listing("<ListBucketResult/>");
  ASSERT_TRUE(listing.has_value()) << listing.error().message();
  EXPECT_THAT(listing->keys, IsEmpty());
  EXPECT_EQ(listing->continuation_token, "");
}

TEST(StoreAnswers, ListingsThatWouldLackKeysAreRefused) {
  for (const char* text :
       {"", "not XML", "<html/>", "<ListBucketResult><Contents><Key>a</Key>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    const Result<Listing> listing = parse_listing(text);
    ASSERT_FALSE(listing.has_value()) << text;
    EXPECT_EQ(listing.error().code(), StatusCode::kCorruption) << text;
  }
}

}  // namespace
}  // namespace meg::s3
