// Any bytes as a safetensors file: what opens covers its data exactly once, and the same tensors,
// laid out again, are read back.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/checkpoint/container/safetensors/safetensors_file.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const meg::test::MemoryFile memory(std::string_view(reinterpret_cast<const char*>(data), size));
  const auto file = meg::checkpoint::SafetensorsFile::open(memory.path());
  if (!file.has_value()) {
    MEG_FUZZ_CHECK(file.error().code() == meg::StatusCode::kCorruption ||
                   file.error().code() == meg::StatusCode::kUnsupported);
    MEG_FUZZ_CHECK(file.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const meg::checkpoint::SafetensorsHeader& header = file->header();
  uint64_t at = 0;
  for (const meg::checkpoint::SafetensorsTensor& tensor : header.tensors) {
    MEG_FUZZ_CHECK(tensor.begin == at);
    at += tensor.bytes;
    MEG_FUZZ_CHECK(file->file_offset(tensor) + tensor.bytes <= size);
  }
  const auto layout = meg::checkpoint::lay_out_safetensors(header.tensors, header.metadata);
  MEG_FUZZ_CHECK(layout.has_value());
  MEG_FUZZ_CHECK(layout->file_size == layout->head.size() + at);
  const auto again = meg::checkpoint::parse_safetensors_header(
      std::string_view(layout->head).substr(8), at, "again");
  MEG_FUZZ_CHECK(again.has_value() && again->tensors.size() == header.tensors.size());
  MEG_FUZZ_CHECK(again->metadata == header.metadata);
  return 0;
}
