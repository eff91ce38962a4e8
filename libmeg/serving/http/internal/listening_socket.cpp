#include "libmeg/serving/http/internal/listening_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>

namespace meg::serving {
namespace {

constexpr int kBacklog = 511;

struct NumericAddress {
  std::string host;
  int port = 0;
};

NumericAddress numeric(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "0";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), port,
                sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  NumericAddress result{host, 0};
  std::from_chars(port, port + sizeof(port), result.port);
  return result;
}

Result<ListeningSocket> listen_at(const addrinfo& address, const std::string& where) {
  io::FileDescriptor socket(
      ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), where);
  if (!socket.is_open()) return errno_error(errno, where);
  // Connections of a server that has just ended do not keep its port.
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return errno_error(errno, "cannot listen on " + where);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return errno_error(errno, where);
  }
  NumericAddress name = numeric(bound, size);
  return ListeningSocket{std::move(socket), std::move(name.host), name.port};
}

/// A path that is in use is only found by trying to connect: the file stays when its server dies.
Status remove_stale_socket(const sockaddr_un& address, const std::string& where) {
  struct stat file {};

  if (::lstat(address.sun_path, &file) != 0) return {};
  if (!S_ISSOCK(file.st_mode)) {
    return make_error(StatusCode::kIoError, "cannot listen on {}: the file is not a socket", where);
  }
  const io::FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                 where);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno != ECONNREFUSED) {
    return make_error(StatusCode::kIoError, "cannot listen on {}: the socket is in use", where);
  }
  if (::unlink(address.sun_path) != 0) return errno_error(errno, "cannot listen on " + where);
  return {};
}

Result<ListeningSocket> listen_at_path(const std::string& where) {
  const std::string path = where.substr(kUnixScheme.size());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return make_error(StatusCode::kInvalidArgument,
                      "cannot listen on {}: expected a path of 1 to {} bytes, found {}", where,
                      sizeof(address.sun_path) - 1, path.size());
  }
  path.copy(address.sun_path, path.size());
  MEG_RETURN_IF_ERROR(remove_stale_socket(address, where));
  io::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                            where);

  struct stat file {};

  // Nobody can connect before listen(), so nobody does with the permissions of before chmod().
  if (!socket.is_open() ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(address.sun_path, S_IRUSR | S_IWUSR) != 0 || ::stat(address.sun_path, &file) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return errno_error(errno, "cannot listen on " + where);
  }
  return ListeningSocket{std::move(socket), where, 0, file.st_dev, file.st_ino};
}

}  // namespace

void ListeningSocket::remove_file() const {
  if (!host.starts_with(kUnixScheme)) return;
  const std::string path = host.substr(kUnixScheme.size());

  struct stat file {};

  if (::lstat(path.c_str(), &file) == 0 && file.st_dev == device && file.st_ino == inode) {
    ::unlink(path.c_str());
  }
}

Result<ListeningSocket> listen_on(const std::string& host, int port) {
  if (host.starts_with(kUnixScheme)) return listen_at_path(host);
  const std::string where = address_text(host, port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return make_error(StatusCode::kInvalidArgument, "cannot listen on {}: {}", where,
                      ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  // The first address of a name, as the resolver prefers them.
  return listen_at(*addresses, where);
}

std::string address_text(const std::string& host, int port) {
  const bool has_colons = host.find(':') != std::string::npos;
  return has_colons ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string peer_address(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "?";
  if (peer.ss_family == AF_UNIX) return "unix";
  const NumericAddress name = numeric(peer, size);
  return address_text(name.host, name.port);
}

}  // namespace meg::serving
