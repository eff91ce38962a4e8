#include "libmeg/serving/http/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "libmeg/serving/http/internal/connection_registry.h"
#include "libmeg/serving/http/internal/http_routes.h"
#include "libmeg/serving/http/internal/listening_socket.h"

// Threads: one that accepts, and one for each connection, detached. The registry knows every
// connection from before its thread starts until that thread's last use of the server, so stop()
// waits for the registry to be empty instead of joining. The acceptor sleeps in poll() on two
// descriptors, the listening socket and an eventfd by which close_door() wakes it.
// docs/decisions/05-http.md says why this is not a library.

namespace meg::serving {
namespace {

/// The wait until descriptors or memory for a further connection may be there again.
constexpr auto kPause = std::chrono::milliseconds(20);

constexpr std::string_view kBusy =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    "Content-Type: application/json\r\nContent-Length: 44\r\n\r\n"
    "{\"message\":\"too many connections are open\"}\n";

}  // namespace

class HttpServer::Implementation {
 public:
  Implementation(const HttpServerOptions& options, HttpService service, ListeningSocket listening,
                 io::FileDescriptor wake)
      : limits_(options.limits),
        routes_(std::move(service), options),
        connections_(options.max_connections),
        listening_(std::move(listening)),
        wake_(std::move(wake)),
        acceptor_([this] { accept_connections(); }) {}

  const ListeningSocket& listening() const { return listening_; }

  void close_door() {
    const std::lock_guard lock(closing_mutex_);
    closing_ = true;
    const uint64_t one = 1;
    while (::write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    if (acceptor_.joinable()) acceptor_.join();
    if (listening_.socket.is_open()) listening_.remove_file();
    (void)listening_.socket.close();
    connections_.interrupt_readers();
  }

  void stop(std::chrono::milliseconds grace) {
    close_door();
    if (connections_.wait_until_empty(grace)) return;
    // Their threads leave as soon as they find it out; all that they use lives here.
    while (!connections_.wait_until_empty(std::chrono::milliseconds(100))) {
      connections_.interrupt_all();
    }
  }

 private:
  void accept_connections() {
    for (;;) {
      pollfd waits[] = {{listening_.socket.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) std::this_thread::sleep_for(kPause);
      if (closing_) return;
      try {
        accept_one();
      } catch (const std::bad_alloc&) {  // the client is let go, the others continue
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  void accept_one() {
    const int socket =
        ::accept4(listening_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      take(io::FileDescriptor(socket, "client"));
      // The connection stays in the system's queue, and poll() would report it again at once: make
      // room, then rest.
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      connections_.interrupt_slowest();
      std::this_thread::sleep_for(kPause);
    }
  }

  void take(io::FileDescriptor socket) {
    const int on = 1;
    // Answers are written whole, so there is nothing to gather by waiting.
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const auto connection = std::make_shared<ClientConnection>(std::move(socket), limits_);
    if (!connections_.add(connection.get())) {
      ::send(connection->socket(), kBusy.data(), kBusy.size(), MSG_NOSIGNAL);
      return;
    }
    try {
      // The thread holds the connection; the registry only points to it.
      std::thread([this, connection] { serve(*connection); }).detach();
    } catch (const std::exception&) {  // no more threads, or no memory for one
      connections_.remove(connection.get());
    }
  }

  void serve(ClientConnection& connection) {
    try {
      while (!closing_ && connection.wait_for_request()) {
        if (!routes_.answer_one(connection, closing_)) break;
      }
    } catch (const std::bad_alloc&) {  // not even for an error's sentence
    }
    connection.close_gently();
    connections_.remove(&connection);  // the last thing that this thread does with the server
  }

  const ClientLimits limits_;
  HttpRoutes routes_;
  ConnectionRegistry connections_;
  ListeningSocket listening_;
  io::FileDescriptor wake_;
  std::atomic<bool> closing_ = false;
  std::mutex closing_mutex_;
  // Last: it uses all of the above from the moment it starts.
  std::thread acceptor_;
};

HttpServer::HttpServer(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options,
                                                      HttpService service) {
  MEG_ASSIGN_OR_RETURN(ListeningSocket listening, listen_on(options.host, options.port));
  io::FileDescriptor wake(eventfd(0, EFD_CLOEXEC), "event of the server");
  if (!wake.is_open()) return errno_error(errno, "event of the server");
  return std::unique_ptr<HttpServer>(new HttpServer(std::make_unique<Implementation>(
      options, std::move(service), std::move(listening), std::move(wake))));
}

int HttpServer::port() const { return implementation_->listening().port; }

std::string HttpServer::address() const {
  const std::string& host = implementation_->listening().host;
  return host.starts_with(kUnixScheme) ? host : "http://" + address_text(host, port());
}

void HttpServer::close_door() { implementation_->close_door(); }

void HttpServer::stop(std::chrono::milliseconds grace) { implementation_->stop(grace); }

}  // namespace meg::serving
