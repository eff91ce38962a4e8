#include "libmeg/parallel/internal/roll_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <thread>

// Called by ranks that meet, and by ranks that gave up waiting: each writes that it is there and
// looks for some time who else does. After ten seconds of the latter whoever is missing is
// computing still, hangs or is gone.

namespace meg::parallel {
namespace {

/// Ranks that wait for the same one do not all begin, and so end, at the same time.
constexpr auto kCallPeriod = std::chrono::seconds(10);
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

}  // namespace

std::string absence_text(const std::vector<int>& absent) {
  return fmt::format("no answer from rank{} {}", absent.size() == 1 ? "" : "s",
                     fmt::join(absent, ", "));
}

bool RollCall::answers(int rank) const {
  return store_->check({fmt::format("{}/{}", occasion_, rank)});
}

std::vector<int> RollCall::absent_ranks(std::chrono::milliseconds period) const {
  store_->set(fmt::format("{}/{}", occasion_, rank_), std::vector<uint8_t>{1});
  const auto end = std::chrono::steady_clock::now() + period;
  std::vector<int> absent(static_cast<size_t>(world_size_));
  for (int rank = 0; rank < world_size_; ++rank) absent[static_cast<size_t>(rank)] = rank;
  while (true) {
    // One question a look while somebody is missing: a thousand ranks that asked for all others
    // each time would keep the store from answering.
    while (!absent.empty() && answers(absent.back())) absent.pop_back();
    if (absent.empty() || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  std::erase_if(absent, [this](int rank) { return answers(rank); });
  return absent;
}

std::string RollCall::report() const {
  // The store ends with the process that hosts it, hence the catch.
  try {
    const std::vector<int> absent = absent_ranks(kCallPeriod);
    if (absent.empty()) return "all ranks wait for each other";
    return absence_text(absent);
  } catch (const std::exception&) {
    return "no answer, and the ranks' store is gone";
  }
}

}  // namespace meg::parallel
