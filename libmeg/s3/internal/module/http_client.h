#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/s3/internal/module/store_settings.h"

namespace meg::s3 {

struct HttpRequest {
  std::string url;                                 ///< Percent-encoded.
  std::vector<std::string> headers;                ///< `name: value`, which are signed, too.
  size_t max_body = 0;                             ///< A longer answer is an error.
  const std::atomic<bool>* interrupted = nullptr;  ///< Once true, the request ends; may be null.
};

struct HttpAnswer {
  long status = 0;
  std::map<std::string, std::string> headers;  ///< by their names in lower case
  std::string body;

  /// Empty if there is none.
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

/// Signed GET requests over connections that are kept. May be called by several threads at once.
class HttpClient {
 public:
  /// settings: must outlive it.
  explicit HttpClient(const StoreSettings& settings);
  ~HttpClient();

  /// Does not follow redirects. Errors: kIoError if another attempt may succeed (no connection, a
  /// dropped one, no byte for half a minute), kUnsupported if none will, kCancelled.
  Result<HttpAnswer> get(const HttpRequest& request) const;

 private:
  class Connection;

  std::unique_ptr<Connection> take() const;
  void give_back(std::unique_ptr<Connection> connection) const;

  const StoreSettings& settings_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Connection>> idle_;  // guarded by mutex_
};

}  // namespace meg::s3
