#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

namespace meg::parallel {

/// By which ranks that waited in vain find out whom they waited for.
class RollCall {
 public:
  RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size)
      : store_(std::move(store)), rank_(rank), world_size_(world_size) {}

  /// Says that this rank is there, and asks for `period` who else does: the ranks that do not.
  /// Throws where the store is gone.
  std::vector<int> absent_ranks(std::chrono::milliseconds period) const;

  /// "no answer of rank 1", of the ranks of the run.
  std::string report() const;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, world_size_;
};

}  // namespace meg::parallel
