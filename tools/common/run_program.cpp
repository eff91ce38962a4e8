#include "tools/common/run_program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "libmeg/base/status.h"
#include "libmeg/io/mapped_file.h"
#include "tools/common/interruption.h"
#include "tools/common/report.h"

// The order matters. Closed standard descriptors are filled before anything else opens a file.
// Standard output is flushed, and its errors are found, before the process ends by a signal, as a
// signal flushes nothing. The last line on standard error is the error, whichever of these found
// it.

namespace meg::tools {
namespace {

/// open() takes the lowest free number. Reading from a closed standard input stays an error: it is
/// not the same as an empty one.
void open_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_WRONLY);
  }
}

void allow_many_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Handles SIGBUS; nothing here may allocate or lock. The thread cannot continue, as its next load
/// would fail again, and _exit() leaves destructors alone, which may hold locks: outputs appear by
/// rename, so nothing half-written stays under a final name.
void end_where_file_was_cut(int, siginfo_t* info, void*) {
  const char* path = io::mapped_path_at(info->si_addr);
  if (path == nullptr) return;  // The access is repeated, and ends the process.
  const auto part = [](const char* text) {
    return iovec{.iov_base = const_cast<char*>(text), .iov_len = std::strlen(text)};
  };
  const iovec line[] = {part(::isatty(STDERR_FILENO) == 1 ? "\nerror: " : "error: "), part(path),
                        part(": changed while it was read\n")};
  (void)!::writev(STDERR_FILENO, line, std::size(line));
  ::_exit(1);
}

std::terminate_handler default_terminate = nullptr;

/// Called instead of throwing std::bad_alloc if there is no memory for the exception itself either,
/// as right after the libraries were loaded under a tight limit.
void end_without_exception() {
  constexpr size_t kMoreThanAnException = size_t{64} << 10;
  constexpr std::string_view kLine = "error: out of memory\n";
  if (std::current_exception() == nullptr && std::malloc(kMoreThanAnException) == nullptr) {
    (void)!::write(STDERR_FILENO, kLine.data(), kLine.size());
    ::_exit(1);
  }
  default_terminate();
}

/// Runs before the initialisation of other objects, which may need memory as well.
[[gnu::constructor(101)]] void handle_termination() {
  default_terminate = std::set_terminate(end_without_exception);
}

void set_signal_actions() {
  std::signal(SIGXFSZ, SIG_IGN);  // The write fails with EFBIG.

  struct sigaction action {};

  action.sa_sigaction = end_where_file_was_cut;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND);
  sigaction(SIGBUS, &action, nullptr);
}

int run_body(int argc, char** argv, int (*body)(int, const char* const*)) {
  try {
    return body(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail(Status(StatusCode::kResourceExhausted, "out of memory"));
  } catch (const std::system_error& error) {
    // fmt::print throws where standard output takes no more; finish_output() says that.
    return std::ferror(stdout) != 0 ? 1 : fail(Status(StatusCode::kIoError, error.what()));
  } catch (const std::exception& error) {
    // No library code lets another one through, so this is a fault of ours. What it says ends at
    // its first line: LibTorch's have the frames of the stack after it.
    const std::string_view what = error.what();
    return fail(
        make_error(StatusCode::kInternal, "unexpected: {}", what.substr(0, what.find('\n'))));
  }
}

/// An error where standard output did not take everything.
Status finish_output() {
  if (std::fflush(stdout) != 0) return errno_error(errno, "standard output");
  if (std::ferror(stdout) == 0) return Status();
  // Why an earlier write failed is forgotten; most likely the next one fails alike.
  const bool works_now = ::write(STDOUT_FILENO, "\n", 1) == 1;
  return errno_error(works_now ? EIO : errno, "standard output");
}

/// Returns only where this process may not be ended so (the first one of a container).
void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

int run_program(int argc, char** argv, int (*body)(int argc, const char* const* argv)) {
  constexpr int kExitCodeOfSignals = 128;  // as shells count
  open_closed_descriptors();
  allow_many_open_files();
  set_signal_actions();
  const int code = run_body(argc, argv, body);
  const Status printed = finish_output();
  if (const int signal = interrupting_signal(); signal != 0) {
    end_by(signal);
    return kExitCodeOfSignals + signal;
  }
  if (printed.ok()) return code;
  fail(printed);
  return code == 0 ? 1 : code;
}

}  // namespace meg::tools
