#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace meg {

/// How far a long piece of work has come.
struct Progress {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;         ///< Input bytes done.
  int64_t total_bytes = -1;  ///< Input bytes in all; -1 where unknown (a pipe).
  /// Documents in all, of work that counts them and no bytes; -1 of other work.
  int64_t total_documents = -1;
  /// What `documents` counts where it is something else, such as "iterations".
  std::string_view counted = "docs";
};

/// How often work that a caller watches tells it of.
inline constexpr auto kProgressInterval = std::chrono::milliseconds(50);

/// Called now and then, by one thread at a time. Returning false asks the work to stop; it then
/// ends with kCancelled and leaves nothing behind.
using ProgressCallback = std::function<bool(const Progress&)>;

}  // namespace meg
