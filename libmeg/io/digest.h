#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace meg::io {

/// A running XXH3-128 of bytes: fast, and detects accidents, but not forgery.
class Digest {
 public:
  Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void add(std::span<const std::byte> bytes);

  /// 32 lower-case hexadecimal digits of all bytes added so far (the canonical, big-endian text).
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meg::io
