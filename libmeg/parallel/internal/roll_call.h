#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

namespace meg::parallel {

/// Lets ranks that waited in vain find out which ranks did not arrive.
class RollCall {
 public:
  RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size)
      : store_(std::move(store)), rank_(rank), world_size_(world_size) {}

  /// Announces this rank and waits up to `period` for the others to do so; returns the ranks that
  /// did not. Throws if the store is gone.
  std::vector<int> absent_ranks(std::chrono::milliseconds period) const;

  /// A text such as "no answer of rank 1", with the ranks' numbers in the run.
  std::string report() const;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, world_size_;
};

}  // namespace meg::parallel
