#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/serving/generation_queue.h"
#include "libmeg/serving/http/request_log.h"

namespace meg::serving {

/// What a server has done, for `GET /metrics`. Each function may be called from any thread.
class ServerMetrics {
 public:
  /// paths: what requests are counted by; others, which clients choose, are counted together.
  explicit ServerMetrics(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  void count(const RequestLog& request);

  /// In Prometheus's text format, version 0.0.4.
  std::string text(const GenerationQueue::Load& load) const;

 private:
  static constexpr std::array<double, 12> kSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                      0.5,   1,    2.5,   10,   60,  600};

  struct Histogram {
    std::array<int64_t, kSeconds.size() + 1> counts = {};  ///< The last: longer than all.
    double sum = 0;

    void add(double seconds);
    void write(const std::string& name, const std::string& help, std::string* text) const;
  };

  const std::vector<std::string> paths_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;  ///< By path and status.
  int64_t prompt_tokens_ = 0;
  int64_t new_tokens_ = 0;
  Histogram seconds_, first_token_seconds_;
};

}  // namespace meg::serving
