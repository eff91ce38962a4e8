#include "libmeg/io/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace meg::io {

struct Digest::State {
  State() : hash(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(hash.get()); }

  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash;
};

Digest::Digest() : state_(std::make_unique<State>()) {}

Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->hash.get(), bytes.data(), bytes.size());
}

std::string Digest::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->hash.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace meg::io
