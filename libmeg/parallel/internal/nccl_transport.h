#pragma once

#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "libmeg/parallel/internal/rank_watch.h"

namespace meg::parallel {

/// The NCCL communicators of one group, each created on first use. Throws LibTorch's exceptions.
class NcclTransport {
 public:
  /// store: used by this group only.
  NcclTransport(c10::intrusive_ptr<c10d::Store> store, std::string name, int rank, int size,
                std::shared_ptr<RankWatch> watch)
      : store_(std::move(store)),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        watch_(std::move(watch)) {}

  RankWatch& watch() { return *watch_; }

  c10d::Backend& all_ranks();

  // Messages from one rank to another have a communicator, and thus a stream, of their own: sends
  // between two ranks do not wait for receives, in whatever order they are queued.
  c10::intrusive_ptr<c10d::Work> send(at::Tensor tensor, int destination);
  c10::intrusive_ptr<c10d::Work> receive(at::Tensor tensor, int source);

  /// Call it after the last collective of all ranks.
  void shut_down();

 private:
  c10d::Backend& link(int source, int destination);
  c10d::Backend& made(const std::string& key, int rank, int size);

  c10::intrusive_ptr<c10d::Store> store_;
  std::string name_;
  int rank_, size_;
  std::shared_ptr<RankWatch> watch_;
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> backends_;
};

}  // namespace meg::parallel
