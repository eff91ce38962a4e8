#include "libmeg/tokenizer/steps/internal/replace_byte.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "libmeg/text/text_padding.h"

namespace meg::tokenizer {

/// Eight bytes at a time: every word has a space, for which a search and two calls would be much.
void append_replacing_byte(std::string_view text, char from, std::string_view to,
                           std::string& out) {
  constexpr size_t kStep = 8;
  static_assert(kMostReplacingBytes <= kStep && 2 * kStep <= text::kTextPadding);
  constexpr uint64_t kOnes = 0x0101010101010101u;
  std::array<char, kStep> padded{};
  std::copy(to.begin(), to.end(), padded.begin());
  const auto found = static_cast<size_t>(std::count(text.begin(), text.end(), from));
  const size_t size = out.size() + text.size() - found + found * to.size();
  const size_t before = out.size();
  // Whole steps are stored, and encoders pad the text.
  out.resize(size + text::kTextPadding);
  char* next = out.data() + before;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (end - at >= static_cast<ptrdiff_t>(kStep)) {
    uint64_t bytes;
    std::memcpy(&bytes, at, kStep);
    std::memcpy(next, at, kStep);
    bytes ^= kOnes * static_cast<unsigned char>(from);
    // The lowest of these bits is exact.
    const uint64_t matches = (bytes - kOnes) & ~bytes & (kOnes << 7);
    const auto kept = static_cast<size_t>(std::countr_zero(matches) / 8);  // 8 where there is none
    next += kept;
    at += kept;
    if (matches == 0) continue;
    std::memcpy(next, padded.data(), kStep);
    next += to.size();
    ++at;
  }
  for (; at < end; ++at) {
    next = *at == from ? std::copy(to.begin(), to.end(), next) : std::copy_n(at, 1, next);
  }
  out.resize(size);
}

}  // namespace meg::tokenizer
