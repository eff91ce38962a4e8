#include "libmeg/text/json/internal/string_kernels_x86.h"

#ifdef __x86_64__

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "libmeg/text/json/internal/string_escape.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the undefined sources inside its own intrinsics for a fault of their caller.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define MEG_TARGET_AVX512                                                          \
  __attribute__((                                                                  \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
             "popcnt")))

// Removes escapes from 64 bytes at once: finds where escapes begin, writes what each stands for
// over its own place (no escape is shorter than its meaning), and drops the places that are left
// over with one compress. What a block cannot do (pairs of surrogates, errors, an escape that the
// block's end cuts) is left as `refused`: text up to there is kept, and either unescape_one does
// that escape or the next block begins at it. docs/performance.md, "JSON lines: log", has what each
// step gave.

namespace meg::text {
namespace {

constexpr unsigned kBlock = 64;  // bytes of a vector

/// Values of hexadecimal digits; 0x80 for other characters.
constexpr std::array<uint8_t, 128> kHexValues = [] {
  std::array<uint8_t, 128> table{};
  for (auto& value : table) value = 0x80;
  for (uint8_t i = 0; i < 10; ++i) table['0' + i] = i;
  for (uint8_t i = 0; i < 6; ++i) table['a' + i] = table['A' + i] = static_cast<uint8_t>(10 + i);
  return table;
}();

/// 0, 1, ... 63: where each byte is.
constexpr std::array<uint8_t, kBlock> kPlaces = [] {
  std::array<uint8_t, kBlock> places{};
  for (size_t i = 0; i < kBlock; ++i) places[i] = static_cast<uint8_t>(i);
  return places;
}();

MEG_TARGET_AVX512 inline __m512i load(const void* at) { return _mm512_loadu_si512(at); }

MEG_TARGET_AVX512 inline __m512i all(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }

MEG_TARGET_AVX512 inline uint64_t equal(__m512i bytes, char c) {
  return _mm512_cmpeq_epi8_mask(bytes, all(c));
}

MEG_TARGET_AVX512 inline uint64_t high_bits(__m512i bytes) { return _mm512_movepi8_mask(bytes); }

/// table[byte & 127] for every byte.
MEG_TARGET_AVX512 inline __m512i look_up(const void* table, __m512i bytes) {
  const char* entries = static_cast<const char*>(table);
  return _mm512_permutex2var_epi8(load(entries), bytes, load(entries + kBlock));
}

/// Gives at every place the byte that stands `distance` places further on (or before).
MEG_TARGET_AVX512 inline __m512i from_further_on(__m512i bytes, int distance) {
  return _mm512_permutexvar_epi8(_mm512_add_epi8(load(kPlaces.data()), all(distance)), bytes);
}

/// The backslashes that begin an escape: in a run of them every second one from the run's first.
/// The block's first byte is not part of an earlier escape.
inline uint64_t escape_starts(uint64_t backslashes) {
  constexpr uint64_t kEven = 0x5555555555555555;
  // Adding the begins of runs at even places carries through each such run and clears it; what is
  // left of `backslashes` by that are the runs from even places.
  const uint64_t run_begins = backslashes & ~(backslashes << 1);
  const uint64_t runs_from_even = backslashes & ~(backslashes + (run_begins & kEven));
  const uint64_t runs_from_odd = backslashes & ~runs_from_even;
  return (runs_from_even & kEven) | (runs_from_odd & ~kEven);
}

/// A block on its way from escaped to plain text.
struct Block {
  __m512i bytes;     // in their places, plain text where `kept`
  uint64_t kept;     // places that stay
  uint64_t refused;  // backslashes of escapes that are not done here
};

/// Puts what \uXXXX stands for in the places of the escape, which has more than it needs. Leaves
/// surrogates, and escapes that reach into the next block, refused.
MEG_TARGET_AVX512 inline void unescape_units(__m512i bytes, Block& block) {
  const __m512i values = look_up(kHexValues.data(), bytes);
  const uint64_t digits = ~high_bits(_mm512_or_si512(values, bytes));
  const __m512i nibbles = _mm512_and_si512(values, all(0x0f));
  const __m512i pairs = _mm512_or_si512(_mm512_slli_epi16(nibbles, 4), from_further_on(nibbles, 1));
  const __m512i high = from_further_on(pairs, 2);  // of the 16 bits, at the escape's first place
  const __m512i low = from_further_on(pairs, 4);
  const uint64_t surrogates = _mm512_cmpeq_epi8_mask(_mm512_and_si512(high, all(0xf8)), all(0xd8));
  const uint64_t units = block.refused & (equal(bytes, 'u') >> 1) & (digits >> 2) & (digits >> 3) &
                         (digits >> 4) & (digits >> 5) & ~surrogates;

  // UTF-8: 0lllllll, or 110hhhll 10llllll, or 1110hhhh 10hhhhll 10llllll.
  const uint64_t above_one = _mm512_test_epi8_mask(high, high) | high_bits(low);
  const uint64_t above_two = _mm512_test_epi8_mask(high, all(0xf8));
  const __m512i top = _mm512_and_si512(_mm512_srli_epi16(high, 4), all(0x0f));
  const __m512i middle = _mm512_or_si512(_mm512_and_si512(_mm512_slli_epi16(high, 2), all(0x3c)),
                                         _mm512_and_si512(_mm512_srli_epi16(low, 6), all(0x03)));
  const __m512i last = _mm512_or_si512(_mm512_and_si512(low, all(0x3f)), all(0x80));
  const __m512i first_of_two = _mm512_or_si512(middle, all(0xc0));
  const __m512i first_of_three = _mm512_or_si512(top, all(0xe0));
  const __m512i first = _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(low, above_one, first_of_two),
                                             above_two, first_of_three);
  const __m512i second = _mm512_mask_mov_epi8(last, above_two, _mm512_or_si512(middle, all(0x80)));

  const uint64_t second_places = (units & above_one) << 1;
  const uint64_t third_places = (units & above_two) << 2;
  block.bytes = _mm512_mask_mov_epi8(block.bytes, units, first);
  block.bytes = _mm512_mask_mov_epi8(block.bytes, second_places, from_further_on(second, -1));
  block.bytes = _mm512_mask_mov_epi8(block.bytes, third_places, from_further_on(last, -2));
  const uint64_t two_places = units | units << 1;
  const uint64_t six_places = two_places | two_places << 2 | two_places << 4;
  block.kept = (block.kept & ~six_places) | units | second_places | third_places;
  block.refused &= ~units;
}

/// Steps over the escapes at `at` that a block does not do: pairs of surrogates, and errors.
inline bool unescape_refused(const char*& at, const char* end, char*& out) {
  bool more = true;
  while (more) {
    if (at >= end || !unescape_one(at, out)) return false;
    more = at[0] == '\\' && at[1] == 'u' && (at[2] == 'd' || at[2] == 'D');
  }
  return true;
}

MEG_TARGET_AVX512 const char* find_special(const char* at, const char* end) {
  for (; at < end; at += kBlock) {
    const __m512i bytes = load(at);
    const uint64_t special =
        _mm512_cmplt_epu8_mask(bytes, all(0x20)) | equal(bytes, '"') | equal(bytes, '\\');
    if (special != 0) return at + std::countr_zero(special);
  }
  return at;
}

MEG_TARGET_AVX512 bool unescape(const char*& at, const char* end, char*& out) {
  constexpr unsigned kLongestEscape = 12;  // bytes: a pair of surrogates
  while (at < end) {
    const __m512i bytes = load(at);
    const uint64_t starts = escape_starts(equal(bytes, '\\'));
    const uint64_t escaped = starts << 1;
    const __m512i meanings = look_up(kSimpleEscapes.data(), bytes);
    const uint64_t simple = _mm512_test_epi8_mask(meanings, meanings) & ~high_bits(bytes);
    // Simple escapes: the backslash is dropped, the letter after it becomes its meaning. An escape
    // whose letter lies in the next block has no bit in `simple` and so stays refused.
    Block block{_mm512_mask_mov_epi8(bytes, escaped, meanings), ~starts, starts & ~(simple >> 1)};
    if (block.refused != 0) unescape_units(bytes, block);
    const uint64_t stops =
        block.refused | (equal(bytes, '"') & ~escaped) | _mm512_cmplt_epu8_mask(bytes, all(0x20));
    const auto taken = static_cast<unsigned>(std::countr_zero(stops));
    const uint64_t kept = _bzhi_u64(block.kept, taken);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, block.bytes));
    out += std::popcount(kept);
    if (stops == 0) {
      at += kBlock;
      continue;
    }
    at += taken;
    if (*at != '\\') return *at == '"' && at < end;
    // The escape may only be cut, not wrong: the next block begins at its backslash and sees all of
    // it, as 12 bytes then fit.
    const bool is_cut = taken > kBlock - kLongestEscape;
    if (!is_cut && !unescape_refused(at, end, out)) return false;
  }
  return false;
}

}  // namespace

const StringKernels kAvx512StringKernels{find_special, unescape};

}  // namespace meg::text

#endif
