#include "libmeg/io/mapping_pool.h"

#include <fstream>
#include <iterator>
#include <mutex>

#include "libmeg/base/fork_mutex.h"

namespace meg::io {

int64_t mapping_limit() {
  // Read once: the limit of a machine changes by hand only.
  static const int64_t limit = [] {
    constexpr int64_t kLinuxDefault = 65530;
    int64_t read = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> read;
    return read > 0 ? read : kLinuxDefault;
  }();
  return limit;
}

std::shared_ptr<const void> MappingPool::find(const void* user) {
  const std::lock_guard lock(fork_mutex());
  const auto found = places_.find(user);
  if (found == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->value;
}

void MappingPool::put(const void* user, int64_t mappings, std::shared_ptr<const void> value,
                      Kept& kept) {
  std::list<Entry> closed;  // after the lock is let go
  const std::lock_guard lock(fork_mutex());
  // Two threads may have opened it at once; the second one's is closed when it has been used.
  if (kept.value.load(std::memory_order_relaxed) != nullptr) return;
  if (kept_ + mappings <= limits_.kept) {
    kept_ += mappings;
    kept.owner = std::move(value);
    kept.value.store(kept.owner.get(), std::memory_order_release);
    return;
  }
  if (const auto found = places_.find(user); found != places_.end()) {
    found->second->value.swap(value);
    return;
  }
  entries_.push_front({.user = user, .mappings = mappings, .value = std::move(value)});
  places_[user] = entries_.begin();
  in_turn_ += mappings;
  while (in_turn_ > limits_.in_turn && entries_.size() > 1) {
    in_turn_ -= entries_.back().mappings;
    places_.erase(entries_.back().user);
    closed.splice(closed.end(), entries_, std::prev(entries_.end()));
  }
}

void MappingPool::forget(const void* user) {
  std::shared_ptr<const void> closed;
  const std::lock_guard lock(fork_mutex());
  const auto found = places_.find(user);
  if (found == places_.end()) return;
  closed = std::move(found->second->value);
  in_turn_ -= found->second->mappings;
  entries_.erase(found->second);
  places_.erase(found);
}

}  // namespace meg::io
