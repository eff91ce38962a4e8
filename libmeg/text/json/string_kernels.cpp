#include "libmeg/text/json/string_kernels.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "libmeg/text/json/internal/string_escape.h"
#include "libmeg/text/json/internal/string_kernels_x86.h"

// Eight bytes at a time in an integer register. On little-endian machines the first byte of the
// line is the lowest, so the lowest high bit set names the first special byte. The tests by
// subtraction may borrow into the bytes above a hit and mark them wrongly, never below one, which
// is why only the first hit is used.

namespace meg::text {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint64_t kHighBits = 0x8080808080808080;

/// Bytes of `word` that are zero, as their high bits; right up to the first one.
uint64_t zero_bytes(uint64_t word) { return (word - kOnes) & ~word & kHighBits; }

/// Quotes, backslashes and control characters of `word`, as zero_bytes.
uint64_t special_bytes(uint64_t word) {
  const uint64_t control = (word - kOnes * 0x20) & ~word & kHighBits;
  return control | zero_bytes(word ^ (kOnes * '"')) | zero_bytes(word ^ (kOnes * '\\'));
}

const char* find_special_portable(const char* at, const char* end) {
  for (; at < end; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    const uint64_t special = special_bytes(word);
    if (special != 0) return at + std::countr_zero(special) / 8;
  }
  return at;
}

bool unescape_portable(const char*& at, const char* end, char*& out) {
  while (at < end) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    // Written before it is known how much of it is text; the rest is overwritten by what comes
    // next.
    std::memcpy(out, &word, sizeof(word));
    const uint64_t special = special_bytes(word);
    const int plain = special == 0 ? 8 : std::countr_zero(special) / 8;
    at += plain;
    out += plain;
    if (special == 0) continue;
    // A quote in the padding after `end` closes nothing, and a control character is not allowed.
    if (*at != '\\') return *at == '"' && at < end;
    while (*at == '\\' && at < end) {
      if (!unescape_one(at, out)) return false;
    }
  }
  return false;
}

constexpr StringKernels kPortableKernels{find_special_portable, unescape_portable};

}  // namespace

const StringKernels& string_kernels(InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::kAvx512) return kAvx512StringKernels;
  if (set == InstructionSet::kAvx2) return kAvx2StringKernels;
#endif
  static_cast<void>(set);
  return kPortableKernels;
}

}  // namespace meg::text
