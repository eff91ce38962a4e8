#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "libmeg/base/version.h"
#include "libmeg/s3/internal/module/http_client.h"
#include "libmeg/s3/internal/module/store_answers.h"
#include "libmeg/s3/internal/module/store_settings.h"
#include "libmeg/s3/internal/store_module.h"

// An object is requested by its first bytes, not by HEAD: the answer has the size and the ETag,
// errors have a text, and small objects are there already. Every later request names the ETag, so
// that bytes of two contents are never mixed.

namespace meg::s3 {
namespace {

constexpr size_t kFirstBytes = size_t{64} << 10;

/// Bytes of one request; a broken connection loses no more.
constexpr size_t kMaxRange = size_t{8} << 20;

/// Bytes of answers that are errors or lists, beside the bytes asked for.
constexpr size_t kMaxText = size_t{16} << 20;

/// Stores want the hash of a request's body signed, which is empty, and libcurl may not say it.
constexpr const char* kNoBody =
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The wait before the second try; each further one is twice as long.
constexpr std::chrono::milliseconds kFirstWait{100};
constexpr std::chrono::milliseconds kMaxWait{20'000};
constexpr std::chrono::milliseconds kWaitStep{50};  // between two looks at `interrupted`

/// Everything but letters, digits and -._~ as %XX, as signatures want it.
std::string percent_encoded(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kPlain = "-._~";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_plain = is_letter || (c >= '0' && c <= '9') || kPlain.find(c) != kPlain.npos;
    if (is_plain || (c == '/' && keep_slashes)) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", byte);
    }
  }
  return encoded;
}

struct Place {
  std::string bucket, key;

  /// key: may be empty where `is_prefix`.
  static Result<Place> of(const std::string& address, bool is_prefix) {
    const size_t begin = std::strlen("s3://");
    const size_t slash = address.find('/', begin);
    if (slash == begin || slash == address.npos || (!is_prefix && slash + 1 == address.size())) {
      return make_error(StatusCode::kInvalidArgument, "{}: expected s3://BUCKET/KEY", address);
    }
    Place place{.bucket = address.substr(begin, slash - begin), .key = address.substr(slash + 1)};
    // It becomes part of the host's name.
    const auto is_odd = [](char c) { return percent_encoded({&c, 1}, false).size() > 1; };
    if (!std::any_of(place.bucket.begin(), place.bucket.end(), is_odd)) return place;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a bucket's name of letters, digits, -, . and _", address);
  }
};

class HttpStore : public ObjectStore {
 public:
  explicit HttpStore(StoreSettings settings) : settings_(std::move(settings)), http_(settings_) {}

  Result<std::unique_ptr<Object>> open(const std::string& address) const override;
  Result<std::vector<std::string>> list(const std::string& prefix, bool is_folder) const override;

  /// Bytes [begin, end) of an object; etag: that it must have, or empty.
  Result<HttpAnswer> get_range(const std::string& address, int64_t begin, int64_t end,
                               const std::string& etag,
                               const std::atomic<bool>* interrupted) const {
    MEG_ASSIGN_OR_RETURN(const Place place, Place::of(address, false));
    HttpRequest request{.url = url_of(place.bucket) + '/' + percent_encoded(place.key, true),
                        .headers = {fmt::format("Range: bytes={}-{}", begin, end - 1)},
                        // A store that knows no ranges answers with the whole object, however long
                        // that is.
                        .max_body = std::max(static_cast<size_t>(end - begin), kMaxText),
                        .interrupted = interrupted};
    if (!etag.empty()) request.headers.push_back("If-Match: " + etag);
    return get(address, std::move(request));
  }

  const StoreSettings& settings() const { return settings_; }

 private:
  /// What stands in front of a key's slash.
  std::string url_of(const std::string& bucket) const {
    // Stores other than AWS's are seldom reached by names of buckets, which need entries in DNS.
    if (!settings_.endpoint.empty()) return settings_.endpoint + '/' + bucket;
    const bool is_china = settings_.region.starts_with("cn-");
    const std::string host =
        fmt::format("s3.{}.amazonaws.com{}", settings_.region, is_china ? ".cn" : "");
    // Certificates are for one level of names below that.
    if (bucket.find('.') != bucket.npos) return "https://" + host + '/' + bucket;
    return fmt::format("https://{}.{}", bucket, host);
  }

  /// Any answer that another try will not change.
  Result<HttpAnswer> get(const std::string& address, HttpRequest request) const {
    request.headers.emplace_back(kNoBody);
    if (!settings_.session_token.empty()) {
      request.headers.push_back("x-amz-security-token: " + settings_.session_token);
    }
    for (int attempt = 1;; ++attempt) {
      Result<HttpAnswer> answer = http_.get(request);
      const bool is_passing_error =
          !answer.has_value() && answer.error().code() == StatusCode::kIoError;
      const bool is_worth_more = answer.has_value() ? is_passing(*answer) : is_passing_error;
      if (!is_worth_more || attempt >= settings_.attempts) {
        if (!answer.has_value()) return answer.error().with_prefix(address);
        return answer;
      }
      MEG_RETURN_IF_ERROR(wait(attempt, request.interrupted));
    }
  }

  static Status wait(int failed, const std::atomic<bool>* interrupted) {
    using Clock = std::chrono::steady_clock;
    const auto longest = std::min(kFirstWait * (int64_t{1} << std::min(failed - 1, 20)), kMaxWait);
    // Requests that failed together are not tried again together.
    const auto now = Clock::now().time_since_epoch().count();
    const auto end = Clock::now() + longest / 2 + longest * (now % 1000) / 2000;
    while (Clock::now() < end) {
      if (interrupted != nullptr && *interrupted) {
        return Status(StatusCode::kCancelled, "interrupted");
      }
      std::this_thread::sleep_for(kWaitStep);
    }
    return Status();
  }

  StoreSettings settings_;
  HttpClient http_;
};

class HttpObject : public Object {
 public:
  HttpObject(const HttpStore& store, std::string address, int64_t size, std::string etag,
             std::string first_bytes)
      : store_(store),
        address_(std::move(address)),
        size_(size),
        etag_(std::move(etag)),
        first_bytes_(std::move(first_bytes)) {}

  const std::string& address() const override { return address_; }

  int64_t size() const override { return size_; }

  const std::string& etag() const override { return etag_; }

  Result<size_t> read_at(int64_t offset, std::span<std::byte> into,
                         const std::atomic<bool>* interrupted) const override {
    const int64_t left = std::max<int64_t>(size_ - offset, 0);
    into = into.first(std::min(into.size(), static_cast<size_t>(left)));
    for (size_t done = 0; done < into.size();) {
      const auto rest = into.subspan(done, std::min(kMaxRange, into.size() - done));
      MEG_RETURN_IF_ERROR(fill(offset + static_cast<int64_t>(done), rest, interrupted));
      done += rest.size();
    }
    return into.size();
  }

 private:
  Status fill(int64_t offset, std::span<std::byte> into,
              const std::atomic<bool>* interrupted) const {
    const int64_t end = offset + std::ssize(into);
    if (end <= std::ssize(first_bytes_)) {
      std::memcpy(into.data(), first_bytes_.data() + offset, into.size());
      return Status();
    }
    MEG_ASSIGN_OR_RETURN(const HttpAnswer answer,
                         store_.get_range(address_, offset, end, etag_, interrupted));
    if (answer.status != 206 && answer.status != 200) {
      return refusal(answer, address_, store_.settings().region);
    }
    // Some stores ignore If-Match, so the answer is looked at as well.
    if (!etag_.empty() && answer.header("etag") != etag_) {
      return make_error(StatusCode::kIoError, "{}: changed while it was read", address_);
    }
    MEG_RETURN_IF_ERROR(check_range(answer, address_, offset, end, size_));
    std::memcpy(into.data(), answer.body.data(), into.size());
    return Status();
  }

  const HttpStore& store_;
  std::string address_;
  int64_t size_;
  std::string etag_;
  std::string first_bytes_;
};

Result<std::unique_ptr<Object>> HttpStore::open(const std::string& address) const {
  MEG_ASSIGN_OR_RETURN(HttpAnswer answer, get_range(address, 0, kFirstBytes, "", nullptr));
  const ContentRange range = ContentRange::of(answer.header("content-range"));
  int64_t size = range.size;
  if (answer.status == 416 && size <= 0) {  // No byte of an empty object can be asked for.
    size = 0;
    answer.body.clear();
  } else if (answer.status == 200) {  // All of it, as some stores answer where it is short.
    size = std::ssize(answer.body);
  } else if (answer.status != 206) {
    return refusal(answer, address, settings_.region);
  } else {
    const int64_t end = std::min<int64_t>(kFirstBytes, size);
    MEG_RETURN_IF_ERROR(check_range(answer, address, 0, end, size));
  }
  return std::unique_ptr<Object>(std::make_unique<HttpObject>(
      *this, address, size, answer.header("etag"), std::move(answer.body)));
}

Result<std::vector<std::string>> HttpStore::list(const std::string& prefix, bool is_folder) const {
  MEG_ASSIGN_OR_RETURN(const Place place, Place::of(prefix, true));
  const std::string bucket = fmt::format("s3://{}/", place.bucket);
  std::vector<std::string> found;
  std::string token;
  do {
    // Put them in the order of their names, as signatures want it.
    const std::string query =
        (token.empty() ? "" : "continuation-token=" + percent_encoded(token, false) + '&') +
        (is_folder ? "delimiter=%2F&" : "") +
        "list-type=2&prefix=" + percent_encoded(place.key, false);
    MEG_ASSIGN_OR_RETURN(
        const HttpAnswer answer,
        get(prefix,
            {.url = url_of(place.bucket) + "/?" + query, .headers = {}, .max_body = kMaxText}));
    if (answer.status != 200) return refusal(answer, prefix, settings_.region);
    Result<Listing> listing = parse_listing(answer.body);
    if (!listing.has_value()) return listing.error().with_prefix(prefix);
    for (const std::string& key : listing->keys) found.push_back(bucket + key);
    token = std::move(listing->continuation_token);
  } while (!token.empty());
  return found;
}

Result<std::unique_ptr<ObjectStore>> open_store() {
  MEG_ASSIGN_OR_RETURN(StoreSettings settings, read_store_settings());
  return std::unique_ptr<ObjectStore>(std::make_unique<HttpStore>(std::move(settings)));
}

}  // namespace

extern "C" {
extern __attribute__((visibility("default"))) const StoreModule meg_store_module;
const StoreModule meg_store_module{version(), open_store};
}

}  // namespace meg::s3
