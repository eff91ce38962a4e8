#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace meg {

/// The progress of a long operation.
struct Progress {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;         ///< Input bytes done.
  int64_t total_bytes = -1;  ///< Input bytes in all; -1 where unknown (a pipe).
  /// Total number of documents, for operations that count documents instead of bytes; otherwise -1.
  int64_t total_documents = -1;
  /// What `documents` counts if not documents, such as "iterations".
  std::string_view counted = "docs";
};

/// How often an operation reports its progress.
inline constexpr auto kProgressInterval = std::chrono::milliseconds(50);

/// Called regularly, by one thread at a time. Return false to stop the operation, which then ends
/// with kCancelled and leaves nothing behind.
using ProgressCallback = std::function<bool(const Progress&)>;

}  // namespace meg
