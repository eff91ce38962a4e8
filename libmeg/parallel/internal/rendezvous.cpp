#include "libmeg/parallel/internal/rendezvous.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/internal/c10d_process_group.h"
#include "libmeg/parallel/internal/nccl_backend.h"
#include "libmeg/parallel/internal/without_end.h"

// Where ranks find each other: c10d's TCPStore, hosted by rank 0 or by torchrun's agent. Groups of
// ranks exchange their addresses through it under the group's name.

namespace meg::parallel {
namespace {

constexpr const char* kFailure = "failure";

/// How long a name of rank 0 is looked up again: clusters announce the names of machines that start
/// with the others some seconds late.
constexpr auto kLookUp = std::chrono::seconds(5);
constexpr auto kBetweenLookUps = std::chrono::milliseconds(500);

/// The store's client would look up a name that does not exist until its time-out, which is
/// minutes.
Status check_address(const std::string& address) {
  const auto end = std::chrono::steady_clock::now() + kLookUp;
  while (true) {
    addrinfo* found = nullptr;
    const int code = ::getaddrinfo(address.c_str(), nullptr, nullptr, &found);
    if (code == 0) {
      ::freeaddrinfo(found);
      return {};
    }
    if (std::chrono::steady_clock::now() >= end) {
      return make_error(StatusCode::kNotFound, "MASTER_ADDR: {}", ::gai_strerror(code));
    }
    std::this_thread::sleep_for(kBetweenLookUps);
  }
}

/// LibTorch warns of every connection that another rank's end closes, with all frames of the stack.
/// What it means for the run is reported without them.
void silence_warnings() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
}

double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Listens on all addresses of this machine. False with errno where that cannot be.
bool listen_on(int socket, int family, uint16_t port) {
  const int on = 1;
  const int off = 0;
  // A run started right after another may bind the port while connections of the last one are still
  // in TIME_WAIT.
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // One socket for IPv4 and IPv6: ranks may find rank 0's name under either.
  if (family == AF_INET6) ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  // Both families have it in the same place.
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
         ::listen(socket, SOMAXCONN) == 0;
}

uint16_t port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

/// What the store listens on. Its own socket would take the addresses that are free and leave the
/// ranks to whoever listens on the others.
Result<int> listening_socket(uint16_t port) {
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket >= 0 && listen_on(socket, family, port)) return socket;
    error = errno;
    if (socket >= 0) ::close(socket);
    // Taken is taken: IPv4 alone might be free, and ranks that come over IPv6 would reach another
    // process.
    if (error == EADDRINUSE) break;
  }
  return errno_error(error, fmt::format("port {} of this machine", port));
}

/// listening: rank 0's, where it hosts the store. Throws where nobody answers.
c10::intrusive_ptr<c10d::Store> connect_store(const LaunchEnvironment& environment,
                                              std::optional<int> listening,
                                              std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = listening.has_value() ? port_of(*listening) : environment.master_port;
  options.isServer = listening.has_value();
  options.masterListenFd = listening;
  options.numWorkers = static_cast<size_t>(environment.world_size);
  // Ranks are waited for by a roll call, which knows those that are missing.
  options.waitWorkers = false;
  options.timeout = timeout;
  options.multiTenant = !environment.agent_store;
  auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
  // After a restart the store of torchrun's agent still has the keys of the run before: the count
  // keeps them apart.
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

Result<std::shared_ptr<Rendezvous>> Rendezvous::meet(const LaunchEnvironment& environment,
                                                     std::chrono::milliseconds timeout) {
  silence_warnings();
  const auto end = std::chrono::steady_clock::now() + timeout;
  std::shared_ptr<Rendezvous> met;
  const Status status = libtorch::torch_guard([&]() -> Status {
    MEG_RETURN_IF_ERROR(check_address(environment.master_addr));
    std::optional<int> listening;
    if (!environment.agent_store && environment.rank == 0) {
      MEG_ASSIGN_OR_RETURN(listening, listening_socket(environment.master_port));
    }
    c10::intrusive_ptr<c10d::Store> store;
    try {
      store = connect_store(environment, listening, timeout);
    } catch (const std::exception&) {
      return make_error(StatusCode::kIoError, "no answer from {} within {} s",
                        environment.agent_store ? "torchrun" : "rank 0", in_seconds(timeout));
    }
    met.reset(new Rendezvous(environment, timeout, std::move(store)));
    return met->wait_for_all(end);
  });
  if (status.ok()) return met;
  return make_error(StatusCode::kIoError, "rank {} of {}: no meeting at {}:{}: {}",
                    environment.rank, environment.world_size, environment.master_addr,
                    environment.master_port, status.message());
}

Status Rendezvous::wait_for_all(std::chrono::steady_clock::time_point end) const {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  const std::vector<int> absent =
      RollCall(store_, environment_.rank, environment_.world_size, "came").absent_ranks(left);
  if (absent.empty()) return {};
  return make_error(StatusCode::kIoError, "{} within {} s", absence_text(absent),
                    in_seconds(timeout_));
}

Rendezvous::Rendezvous(LaunchEnvironment environment, std::chrono::milliseconds timeout,
                       c10::intrusive_ptr<c10d::Store> store)
    : environment_(std::move(environment)),
      timeout_(timeout),
      store_(std::move(store)),
      // A second connection: a TCPStore's client is locked while it waits for a key, and a failure
      // must be readable meanwhile.
      failure_store_(store_->clone()) {}

Rendezvous::~Rendezvous() {
  // First of all: connections that close from here on are no lost ranks.
  if (watch_ != nullptr) watch_->stop();
}

c10::intrusive_ptr<c10d::Backend> Rendezvous::gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                   int rank, int size,
                                                   std::chrono::milliseconds timeout) const {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(gloo_device());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, std::move(options));
}

Result<std::shared_ptr<ProcessGroup>> Rendezvous::group(
    const std::string& name, std::span<const int> ranks,
    std::optional<std::chrono::milliseconds> timeout) {
  const auto place = std::distance(ranks.begin(), std::ranges::find(ranks, environment_.rank));
  const auto rank = static_cast<int>(place);
  const auto size = static_cast<int>(ranks.size());
  std::shared_ptr<ProcessGroup> group;
  const Status joined = libtorch::torch_guard([&] {
    const auto store =
        // Groups of one name are distinguished by their first rank: each rank is in one of them.
        c10::make_intrusive<c10d::PrefixStore>(fmt::format("{}/{}", name, ranks.front()), store_);
    std::shared_ptr<NcclTransport> nccl;
    if (watch_ != nullptr) {
      nccl = nccl_.emplace_back(std::make_shared<NcclTransport>(store, name, rank, size, watch_));
    }
    group = c10d_process_group(gloo(store, rank, size, timeout.value_or(timeout_)), std::move(nccl),
                               name, RollCall(store_, environment_.rank, environment_.world_size));
    return Status();
  });
  if (joined.ok()) return group;
  return make_error(StatusCode::kIoError, "rank {} of {}: the {} group did not meet: {}",
                    environment_.rank, environment_.world_size, name, joined.message());
}

Status Rendezvous::use_nccl(OnLost on_lost) {
  MEG_RETURN_IF_ERROR(check_nccl());
  return libtorch::torch_guard([&] {
    const int rank = environment_.rank;
    const int size = environment_.world_size;
    watch_ = std::make_shared<RankWatch>(
        failure_store_,
        gloo(c10::make_intrusive<c10d::PrefixStore>("watch", store_), rank, size, kWithoutEnd),
        RollCall(failure_store_, rank, size),
        RankWatch::Options{.rank = rank,
                           .world_size = size,
                           .timeout = timeout_,
                           .failure_key = kFailure,
                           .on_lost = [this, on_lost = std::move(on_lost)](const Status& why) {
                             on_lost(why, claim_failure());
                           }});
    return Status();
  });
}

Status Rendezvous::end(ProcessGroup& world) {
  MEG_RETURN_IF_ERROR(world.barrier());
  if (watch_ == nullptr) return {};
  // All ranks stop watching before any of them closes its connections.
  watch_->stop();
  MEG_RETURN_IF_ERROR(world.barrier());
  return libtorch::torch_guard([this] {
    for (const auto& group : nccl_) group->shut_down();
    return Status();
  });
}

// add() is atomic in the store: one rank sees 1.
bool Rendezvous::claim(const std::string& key) const { return store_->add(key, 1) == 1; }

bool Rendezvous::claim_failure() {
  const std::lock_guard lock(mutex_);
  if (is_failure_ours_.has_value()) return *is_failure_ours_;
  bool is_first = environment_.rank <= 1;
  (void)libtorch::torch_guard([&] {
    is_first = failure_store_->add(kFailure, 1) == 1;
    return Status();
  });
  is_failure_ours_ = is_first;
  return is_first;
}

}  // namespace meg::parallel
