#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

namespace meg::pretended {

/// What an address belongs to. Whatever is none of these is pageable memory of the host.
enum class MemoryKind { kDevice, kPinned };

/// Pieces of memory by address. Safe among threads.
class MemoryMap {
 public:
  static MemoryMap& instance();

  void add(const void* begin, size_t bytes, MemoryKind kind);

  /// The bytes of the piece that begins here, which is forgotten; nullopt where none does.
  std::optional<size_t> remove(const void* begin);

  std::optional<MemoryKind> kind_of(const void* address);

 private:
  struct Piece {
    size_t bytes;
    MemoryKind kind;
  };

  std::mutex mutex_;
  std::map<const char*, Piece> pieces_;
};

}  // namespace meg::pretended
