// Any bytes as the index of a sharded model: its files lie beside it, and a rewritten one is
// read back.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/checkpoint/container/safetensors/shard_index.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto index = meg::checkpoint::parse_shard_index(json, "index.json");
  if (!index.has_value()) {
    MEG_FUZZ_CHECK(index.error().code() == meg::StatusCode::kCorruption);
    MEG_FUZZ_CHECK(index.error().message().find('\n') == std::string::npos);
    return 0;
  }
  for (const std::string& file : index->file_names()) {
    MEG_FUZZ_CHECK(!file.empty() && file != "." && file != "..");
    MEG_FUZZ_CHECK(file.find('/') == std::string::npos && file.find('\0') == std::string::npos);
  }
  const auto again =
      meg::checkpoint::parse_shard_index(meg::checkpoint::shard_index_json(*index, 1, 1), "again");
  MEG_FUZZ_CHECK(again.has_value() && again->files == index->files);
  return 0;
}
