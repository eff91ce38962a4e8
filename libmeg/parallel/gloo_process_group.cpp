#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {
namespace {

class GlooProcessGroup : public ProcessGroup {
 public:
  explicit GlooProcessGroup(c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : group_(std::move(group)) {}

  int rank() const override { return group_->getRank(); }

  int world_size() const override { return group_->getSize(); }

  Status all_reduce_sum(at::Tensor tensor) override {
    return libtorch::torch_guard([&] {
      std::vector<at::Tensor> tensors = {std::move(tensor)};
      group_->allreduce(tensors)->wait();
      return Status();
    });
  }

  Status barrier() override {
    return libtorch::torch_guard([&] {
      group_->barrier()->wait();
      return Status();
    });
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

c10::intrusive_ptr<c10d::Store> connect_store(const LaunchEnvironment& environment,
                                              std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = environment.master_port;
  options.isServer = !environment.agent_store && environment.rank == 0;
  options.numWorkers = static_cast<size_t>(environment.world_size);
  options.waitWorkers = !environment.agent_store;
  options.timeout = timeout;
  options.multiTenant = !environment.agent_store;
  auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
  return c10::make_intrusive<c10d::PrefixStore>("libmeg", std::move(store));
}

/// The network device that Gloo uses; GLOO_SOCKET_IFNAME chooses one, as in Python.
std::shared_ptr<gloo::transport::Device> gloo_device() {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::connect(const LaunchEnvironment& environment,
                                                            std::chrono::milliseconds timeout) {
  std::unique_ptr<ProcessGroup> connected;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(gloo_device());
    connected = std::make_unique<GlooProcessGroup>(c10::make_intrusive<c10d::ProcessGroupGloo>(
        connect_store(environment, timeout), environment.rank, environment.world_size,
        std::move(options)));
    return Status();
  }));
  return connected;
}

}  // namespace meg::parallel
