// Any line: the fast reader, with every instruction set, and the strict one give the same texts
// where the fast one takes the line. The input's first byte is what stands after the line.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_check.h"
#include "tests/text/json_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view line(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const auto set : meg::test::instruction_sets()) {
    const std::string difference =
        meg::test::difference_of_readers(line, set, static_cast<char>(data[0]));
    if (!difference.empty()) std::fprintf(stderr, "%s\n", difference.c_str());
    MEG_FUZZ_CHECK(difference.empty());
  }
  return 0;
}
