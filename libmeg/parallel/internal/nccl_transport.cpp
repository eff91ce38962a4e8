#include "libmeg/parallel/internal/nccl_transport.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "libmeg/parallel/internal/nccl_backend.h"

namespace meg::parallel {
namespace {

constexpr int kSource = 0;
constexpr int kDestination = 1;

/// Out of a group of NCCL's calls, for which c10d makes no communicator beside the link's own.
template <class Begin>
c10::intrusive_ptr<c10d::Work> grouped(c10d::Backend& link, Begin begin) {
  link.startCoalescing();
  begin();
  return link.endCoalescing();
}

}  // namespace

c10d::Backend& NcclTransport::all_ranks() { return made("all", rank_, size_); }

c10::intrusive_ptr<c10d::Work> NcclTransport::send(at::Tensor tensor, int destination) {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  c10d::Backend& link = this->link(rank_, destination);
  return grouped(link, [&] { link.send(tensors, kDestination, /*tag=*/0); });
}

c10::intrusive_ptr<c10d::Work> NcclTransport::receive(at::Tensor tensor, int source) {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  c10d::Backend& link = this->link(source, rank_);
  return grouped(link, [&] { link.recv(tensors, kSource, /*tag=*/0); });
}

void NcclTransport::shut_down() {
  // Do not leave it to destructors, which also run where an error ends this rank: to destroy a
  // communicator may wait for the other ranks.
  for (auto& [key, backend] : backends_) backend->shutdown();
}

c10d::Backend& NcclTransport::link(int source, int destination) {
  return made(fmt::format("{}>{}", source, destination), rank_ == source ? kSource : kDestination,
              /*size=*/2);
}

c10d::Backend& NcclTransport::made(const std::string& key, int rank, int size) {
  c10::intrusive_ptr<c10d::Backend>& backend = backends_[key];
  if (!backend) {
    // A prefix for each communicator keeps the ids that they exchange in the store apart.
    backend = nccl_backend(c10::make_intrusive<c10d::PrefixStore>("nccl/" + key, store_),
                           fmt::format("{}/{}", name_, key), rank, size);
  }
  return *backend;
}

}  // namespace meg::parallel
