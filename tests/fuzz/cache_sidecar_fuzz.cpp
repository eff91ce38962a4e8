// Any text as the sidecar of an index cache: what is taken has the values that it is written with,
// and one with the values of the input, whatever they are, is read back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/samples/cache/internal/cache_sidecar.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

/// A sidecar of the input's first bytes.
meg::samples::CacheSidecar sidecar_of(std::string_view bytes) {
  int64_t numbers[6] = {};
  bytes.copy(reinterpret_cast<char*>(numbers), sizeof(numbers));
  const std::string digest(32, numbers[0] % 2 == 0 ? 'a' : '7');
  meg::samples::CacheSidecar sidecar;
  sidecar.idx = {.size = numbers[0], .mtime_ns = numbers[1], .xxh3 = digest};
  sidecar.sequences = {.begin = numbers[2], .end = numbers[3]};
  sidecar.lengths = {.tokens = numbers[4], .longest = numbers[5], .xxh3 = digest};
  sidecar.extra_token = numbers[1] % 2 == 0;
  sidecar.drop_last_partial = numbers[2] % 2 == 0;
  sidecar.indices = {.document_index = digest, .sample_index = digest, .shuffle_index = digest};
  return sidecar;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy, as files are read into one: of no bytes, `data` may point nowhere.
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed = meg::samples::parse_sidecar(text, "a.json");
  if (parsed.has_value()) {
    const std::string written = meg::samples::sidecar_text(*parsed);
    const auto again = meg::samples::parse_sidecar(written, "a.json");
    MEG_FUZZ_CHECK(again.has_value() && meg::samples::sidecar_text(*again) == written);
  } else {
    MEG_FUZZ_CHECK(parsed.error().code() == meg::StatusCode::kCorruption ||
                   parsed.error().code() == meg::StatusCode::kUnsupported);
    MEG_FUZZ_CHECK(parsed.error().message().find('\n') == std::string::npos);
  }
  const std::string made = meg::samples::sidecar_text(sidecar_of(text));
  const auto read = meg::samples::parse_sidecar(made, "a.json");
  MEG_FUZZ_CHECK(read.has_value() && meg::samples::sidecar_text(*read) == made);
  return 0;
}
