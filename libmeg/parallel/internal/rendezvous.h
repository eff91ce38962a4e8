#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/parallel/internal/nccl_transport.h"
#include "libmeg/parallel/internal/rank_watch.h"
#include "libmeg/parallel/launch_environment.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

/// Ends a rank on a GPU that would wait for others forever: see DeviceOfRank.
using OnLost = std::function<void(const Status& why, bool says_why)>;

/// The store by which all ranks of a run find each other.
class Rendezvous {
 public:
  /// Connects to rank 0's store and waits for all ranks to do so, at most `timeout`.
  /// Errors: kIoError with the address if it cannot be found or reached, its port is in use, or
  /// ranks are missing, with their numbers.
  static Result<std::shared_ptr<Rendezvous>> meet(const LaunchEnvironment& environment,
                                                  std::chrono::milliseconds timeout);

  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Creates the group of these ranks of the run, which must include this one; waits for the
  /// others. Each of them calls it with the same name, which must differ from those of other groups
  /// that have a rank in common. timeout: for the group's calls; that of meet() by default.
  Result<std::shared_ptr<ProcessGroup>> group(
      const std::string& name, std::span<const int> ranks,
      std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  /// Makes groups created from now on use NCCL for tensors on GPUs. Called by all ranks.
  Status use_nccl(OnLost on_lost);

  /// Called by all ranks; they must send nothing afterwards.
  Status end(ProcessGroup& world);

  /// Whether this rank is the first to claim `key`.
  bool claim(const std::string& key) const;

  /// claim() for the failure of the run; every call returns the same answer. If the store is gone,
  /// most likely with rank 0, rank 1 counts as the first. Thread-safe.
  bool claim_failure();

 private:
  Rendezvous(LaunchEnvironment environment, std::chrono::milliseconds timeout,
             c10::intrusive_ptr<c10d::Store> store);

  /// kIoError, with their numbers, if some ranks are not here at `end`.
  Status wait_for_all(std::chrono::steady_clock::time_point end) const;

  /// Gloo's backend for a group in which this rank has the number `rank`.
  c10::intrusive_ptr<c10d::Backend> gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int size, std::chrono::milliseconds timeout) const;

  LaunchEnvironment environment_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store>
      failure_store_;  ///< A connection on which no call waits for long.
  std::mutex mutex_;   ///< Guards is_failure_ours_.
  std::optional<bool> is_failure_ours_;
  std::vector<std::shared_ptr<NcclTransport>> nccl_;  ///< Those of all groups.
  std::shared_ptr<RankWatch> watch_;                  ///< Null if ranks have no GPUs.
};

}  // namespace meg::parallel
