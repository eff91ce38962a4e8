#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

namespace meg::parallel {

/// Lets ranks that wait find out which ranks do not arrive.
class RollCall {
 public:
  /// occasion: the same on all ranks, and another for each roll call of a run.
  RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size,
           std::string occasion = "waited")
      : store_(std::move(store)),
        rank_(rank),
        world_size_(world_size),
        occasion_(std::move(occasion)) {}

  /// Announces this rank and waits up to `period` for the others to do so; returns the ranks that
  /// did not. Throws if the store is gone.
  std::vector<int> absent_ranks(std::chrono::milliseconds period) const;

  /// A text such as "no answer from rank 1", with the ranks' numbers in the run.
  std::string report() const;

 private:
  bool answers(int rank) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, world_size_;
  std::string occasion_;
};

/// "no answer from ranks 1, 2"
std::string absence_text(const std::vector<int>& absent);

}  // namespace meg::parallel
