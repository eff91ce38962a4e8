#pragma once

#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "libmeg/parallel/internal/rank_watch.h"

namespace meg::parallel {

/// The NCCL communicators of one group, each made when it is first used. LibTorch's exceptions fly.
class NcclTransport {
 public:
  /// store: of this group alone.
  NcclTransport(c10::intrusive_ptr<c10d::Store> store, std::string name, int rank, int size,
                std::shared_ptr<RankWatch> watch)
      : store_(std::move(store)),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        watch_(std::move(watch)) {}

  RankWatch& watch() { return *watch_; }

  c10d::Backend& all_ranks();

  // Messages from one rank to another have a communicator of their own, and with it a stream: what
  // two ranks send each other does not wait for what they receive, in whatever order the two come.
  c10::intrusive_ptr<c10d::Work> send(at::Tensor tensor, int destination);
  c10::intrusive_ptr<c10d::Work> receive(at::Tensor tensor, int source);

  /// After the last collective of all ranks.
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
