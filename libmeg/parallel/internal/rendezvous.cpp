#include "libmeg/parallel/internal/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/internal/c10d_process_group.h"

namespace meg::parallel {
namespace {

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
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("libmeg/{}", environment.restart_count),
                                                std::move(store));
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

Result<Rendezvous> Rendezvous::meet(const LaunchEnvironment& environment,
                                    std::chrono::milliseconds timeout) {
  c10::intrusive_ptr<c10d::Store> store;
  const Status met = libtorch::torch_guard([&] {
    store = connect_store(environment, timeout);
    return Status();
  });
  if (met.ok()) return Rendezvous(environment, timeout, std::move(store));
  return make_error(StatusCode::kIoError, "rank {} of {}: no meeting at {}:{}: {}",
                    environment.rank, environment.world_size, environment.master_addr,
                    environment.master_port, met.message());
}

Result<std::shared_ptr<ProcessGroup>> Rendezvous::group(
    const std::string& name, std::span<const int> ranks,
    std::optional<std::chrono::milliseconds> timeout) const {
  const auto place = std::ranges::find(ranks, environment_.rank);
  std::shared_ptr<ProcessGroup> group;
  const Status joined = libtorch::torch_guard([&] {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout.value_or(timeout_));
    options->devices.push_back(gloo_device());
    auto store =
        c10::make_intrusive<c10d::PrefixStore>(fmt::format("{}/{}", name, ranks.front()), store_);
    group = c10d_process_group(
        c10::make_intrusive<c10d::ProcessGroupGloo>(
            std::move(store), static_cast<int>(std::distance(ranks.begin(), place)),
            static_cast<int>(ranks.size()), std::move(options)),
        name);
    return Status();
  });
  if (joined.ok()) return group;
  return make_error(StatusCode::kIoError, "rank {} of {}: the {} group did not meet: {}",
                    environment_.rank, environment_.world_size, name, joined.message());
}

bool Rendezvous::claim(const std::string& key) const {
  bool is_first = environment_.rank <= 1;
  (void)libtorch::torch_guard([&] {
    is_first = store_->add(key, 1) == 1;
    return Status();
  });
  return is_first;
}

}  // namespace meg::parallel
