#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "libmeg/base/result.h"

namespace meg::io {

/// The mappings that a process may have at once (vm.max_map_count).
int64_t mapping_limit();

/// What is made of mapped files, where there may be more of them than a process can map: the first
/// ones stay open, and of the others those that were used last. Share it by shared_ptr among its
/// PooledMappings. Safe for any number of threads, and for the children of fork().
class MappingPool {
 public:
  /// The shares of the process's mappings that stay open, and that others take turns in. Something
  /// must be left for other libraries.
  struct Limits {
    int64_t kept = mapping_limit() / 2;
    int64_t in_turn = mapping_limit() / 8;
  };

  MappingPool() : MappingPool(Limits()) {}

  explicit MappingPool(const Limits& limits) : limits_(limits) {}

  /// What was put() for `user` and is still open; null: nothing.
  std::shared_ptr<const void> find(const void* user);

  /// What stays open for good, as long as its PooledMapping lives.
  struct Kept {
    std::shared_ptr<const void> owner;
    std::atomic<const void*> value = nullptr;  ///< Set after the owner, once.
  };

  /// Puts `value`, which takes a number of mappings, into `kept` if that many are left; else it
  /// closes what was used longest ago to make room. What somebody still holds stays open as long.
  void put(const void* user, int64_t mappings, std::shared_ptr<const void> value, Kept& kept);

  void forget(const void* user);

 private:
  struct Entry {
    const void* user;
    int64_t mappings;
    std::shared_ptr<const void> value;
  };

  const Limits limits_;
  int64_t kept_ = 0;  ///< fork_mutex() guards this and all that follows.
  int64_t in_turn_ = 0;
  std::list<Entry> entries_;  ///< The last used one first.
  std::unordered_map<const void*, std::list<Entry>::iterator> places_;
};

/// A T, made of mapped files, that is opened when it is used. Neither copied nor moved.
template <class T>
class PooledMapping {
 public:
  using Open = std::function<Result<T>()>;

  /// open: may be called again, by any thread. mappings: how many an open T has.
  PooledMapping(std::shared_ptr<MappingPool> pool, int64_t mappings, Open open)
      : pool_(std::move(pool)), mappings_(mappings), open_(std::move(open)) {}

  PooledMapping(const PooledMapping&) = delete;

  ~PooledMapping() { pool_->forget(this); }

  /// Uses a T that is open already.
  void put(T value) { (void)put(std::make_shared<const T>(std::move(value))); }

  /// The T, open as long as the pointer lives; an error of opening it.
  Result<std::shared_ptr<const T>> pin() const {
    // The usual case: it stays open, and nobody counts who uses it.
    if (const void* kept = kept_.value.load(std::memory_order_acquire)) {
      return std::shared_ptr<const T>(std::shared_ptr<const void>(), static_cast<const T*>(kept));
    }
    if (const auto found = pool_->find(this)) return std::static_pointer_cast<const T>(found);
    MEG_ASSIGN_OR_RETURN(T opened, open_());
    return put(std::make_shared<const T>(std::move(opened)));
  }

 private:
  std::shared_ptr<const T> put(std::shared_ptr<const T> value) const {
    pool_->put(this, mappings_, value, kept_);
    return value;
  }

  const std::shared_ptr<MappingPool> pool_;
  const int64_t mappings_;
  const Open open_;
  mutable MappingPool::Kept kept_;
};

}  // namespace meg::io
