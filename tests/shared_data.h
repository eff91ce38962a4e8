#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace meg::test {

/// The folder with the oracle's files and the large test data: $MEG_SHARED, else ../shared beside
/// the checkout. May not exist: use MEG_REQUIRE_SHARED first.
inline std::string shared_path(const std::string& name) {
  const char* chosen = std::getenv("MEG_SHARED");
  const std::string root = chosen != nullptr ? chosen : MEG_SOURCE_DIR "/../shared";
  return root + "/" + name;
}

}  // namespace meg::test

/// Skips the test, visibly, where the shared folder lacks `name`.
#define MEG_REQUIRE_SHARED(name)                                         \
  do {                                                                   \
    if (!std::filesystem::exists(::meg::test::shared_path(name))) {      \
      GTEST_SKIP() << "not found: " << ::meg::test::shared_path(name)    \
                   << " (set MEG_SHARED to the folder with the oracle)"; \
    }                                                                    \
  } while (false)
