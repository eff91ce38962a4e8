#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <string>

#include "tests/child_process.h"

namespace meg::test {

/// Runs `body` where a small filesystem is mounted at `at`, in a child with mounts of its own;
/// false where this process may not mount. `body` returns an empty text or what went wrong.
template <class Body>
bool in_small_filesystem(const std::string& at, const char* mount_options, const Body& body) {
  const std::string found = in_child([&]() -> std::string {
    const bool is_mounted = ::unshare(CLONE_NEWNS) == 0 &&
                            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                            ::mount("meg-test", at.c_str(), "tmpfs", 0, mount_options) == 0;
    return is_mounted ? body() : "cannot mount";
  });
  if (found == "cannot mount") return false;
  EXPECT_EQ(found, "");
  return true;
}

}  // namespace meg::test
