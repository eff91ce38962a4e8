#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "libmeg/base/bytes.h"
#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"

namespace meg::checkpoint {

/// The bytes of a pickle, read one after another. Errors say "what: expected, found" and leave the
/// place to the caller.
class PickleInput {
 public:
  explicit PickleInput(std::span<const std::byte> bytes)
      : bytes_(bytes.first(std::min(bytes.size(), kMaxPickleBytes))),
        cut_(bytes.size() > kMaxPickleBytes) {}

  size_t position() const { return position_; }

  size_t remaining() const { return bytes_.size() - position_; }

  Result<std::string_view> bytes(uint64_t count, std::string_view what) {
    if (count > remaining()) return short_of(count, what);
    const auto* text = reinterpret_cast<const char*>(bytes_.data());
    const std::string_view found(text + position_, static_cast<size_t>(count));
    position_ += found.size();
    return found;
  }

  template <class T>
  Result<T> number(std::string_view what) {
    MEG_ASSIGN_OR_RETURN(const std::string_view found, bytes(sizeof(T), what));
    return load_le<T>(found.data());
  }

  /// The bytes that follow their count, which is a Count.
  template <class Count>
  Result<std::string_view> counted(std::string_view what) {
    MEG_ASSIGN_OR_RETURN(const Count count, number<Count>(what));
    return bytes(count, what);
  }

  /// Returns what comes before the next line feed, which is skipped.
  Result<std::string_view> line(std::string_view what) {
    const auto* text = reinterpret_cast<const char*>(bytes_.data());
    const size_t size = std::string_view(text + position_, remaining()).find('\n');
    if (size == std::string_view::npos) return short_of(remaining() + 1, what);
    MEG_ASSIGN_OR_RETURN(const std::string_view found, bytes(size + 1, what));
    return found.substr(0, size);
  }

 private:
  Status short_of(uint64_t count, std::string_view what) const {
    if (cut_) {
      return make_error(StatusCode::kResourceExhausted,
                        "{}: expected a pickle of at most {} bytes, found more", what,
                        kMaxPickleBytes);
    }
    return make_error(StatusCode::kCorruption, "{}: expected {} bytes, found {}", what, count,
                      remaining());
  }

  std::span<const std::byte> bytes_;
  bool cut_;
  size_t position_ = 0;
};

}  // namespace meg::checkpoint
