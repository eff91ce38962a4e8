#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace meg::test {

/// Runs `body` in a child process and returns its text: what went wrong there, or nothing.
template <class Body>
std::string in_child(const Body& body) {
  int answer[2];
  if (::pipe(answer) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string found = body();
    const auto written = ::write(answer[1], found.data(), found.size());
    ::_exit(written == static_cast<ssize_t>(found.size()) ? 0 : 1);
  }
  ::close(answer[1]);
  std::string found;
  char block[1000];
  for (ssize_t got = 0; (got = ::read(answer[0], block, sizeof(block))) > 0;) {
    found.append(block, static_cast<size_t>(got));
  }
  ::close(answer[0]);
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    found += "the child ended with status " + std::to_string(status);
  }
  return found;
}

}  // namespace meg::test
