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

/// What becomes of a rank on a GPU that would wait for others forever: see DeviceOfRank.
using OnLost = std::function<void(const Status& why, bool says_why)>;

/// The store by which all ranks of a run find each other.
class Rendezvous {
 public:
  /// Waits for rank 0's store at most `timeout`.
  /// Errors: kIoError with the address where it is not there, or its port is taken.
  static Result<std::shared_ptr<Rendezvous>> meet(const LaunchEnvironment& environment,
                                                  std::chrono::milliseconds timeout);

  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// The group of these ranks of the run, this one among them; each of them calls it with the same
  /// name, which no two groups with a rank in common share. Waits for them. timeout: of the group's
  /// calls; that of meet() by default.
  Result<std::shared_ptr<ProcessGroup>> group(
      const std::string& name, std::span<const int> ranks,
      std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  /// Groups that are made from now on have NCCL for tensors on GPUs. Called by all ranks.
  Status use_nccl(OnLost on_lost);

  /// Called by all ranks, which send nothing after it.
  Status end(ProcessGroup& world);

  /// Whether this rank is the first to claim `key`.
  bool claim(const std::string& key) const;

  /// claim() of the failure of the run, which has the same answer each time. Where the store is
  /// gone, and most likely rank 0 with it, rank 1 is taken for the first. Safe among threads.
  bool claim_failure();

 private:
  Rendezvous(LaunchEnvironment environment, std::chrono::milliseconds timeout,
             c10::intrusive_ptr<c10d::Store> store);

  /// Gloo's, over ranks of which this one has the number `rank`.
  c10::intrusive_ptr<c10d::Backend> gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int size, std::chrono::milliseconds timeout) const;

  LaunchEnvironment environment_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> failure_store_;  ///< A connection that nobody waits on for long.
  std::mutex mutex_;                               ///< Of is_failure_ours_.
  std::optional<bool> is_failure_ours_;
  std::vector<std::shared_ptr<NcclTransport>> nccl_;  ///< Of all groups.
  std::shared_ptr<RankWatch> watch_;                  ///< Null where ranks have no GPUs.
};

}  // namespace meg::parallel
