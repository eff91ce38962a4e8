#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "libmeg/base/result.h"
#include "libmeg/parallel/launch_environment.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

/// The store by which all ranks of a run find each other.
class Rendezvous {
 public:
  /// Waits for rank 0's store at most `timeout`.
  /// Errors: kIoError with the address where it is not there, or its port is taken.
  static Result<Rendezvous> meet(const LaunchEnvironment& environment,
                                 std::chrono::milliseconds timeout);

  /// The group of these ranks of the run, this one among them; each of them calls it with the same
  /// name, which no two groups with a rank in common share. Waits for them. timeout: of the group's
  /// calls; that of meet() by default.
  Result<std::shared_ptr<ProcessGroup>> group(
      const std::string& name, std::span<const int> ranks,
      std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

  /// Whether this rank is the first to claim `key`. Where the store is gone, and most likely rank 0
  /// with it, rank 1 is taken for that.
  bool claim(const std::string& key) const;

 private:
  Rendezvous(LaunchEnvironment environment, std::chrono::milliseconds timeout,
             c10::intrusive_ptr<c10d::Store> store)
      : environment_(std::move(environment)), timeout_(timeout), store_(std::move(store)) {}

  LaunchEnvironment environment_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace meg::parallel
