// Any text as a list of documents: an error of one line, or ranges in order, apart and of documents
// that there are; what a list leaves out and what it names are all documents. The first byte is the
// number of documents.

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_check.h"
#include "tools/common/document_orders.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int64_t documents = data[0];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto named = meg::tools::parse_documents(text, documents);
  if (!named.has_value()) {
    MEG_FUZZ_CHECK(named.error().message().find('\n') == std::string::npos);
    return 0;
  }
  int64_t count = 0, last = -1;
  for (const auto& [begin, end] : *named) {
    MEG_FUZZ_CHECK(begin > last && begin < end && end <= documents);
    last = end;
    count += end - begin;
  }
  for (const auto& [begin, end] : meg::tools::others(*named, documents)) count += end - begin;
  MEG_FUZZ_CHECK(count == documents);
  return 0;
}
