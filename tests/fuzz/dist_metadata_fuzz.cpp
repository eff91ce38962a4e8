// Any bytes as the .metadata of a torch.distributed.checkpoint folder: reading must not crash; what
// is read holds together.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

void check_blob(const meg::checkpoint::DistMetadata& metadata,
                const meg::checkpoint::DistBlob& blob) {
  MEG_FUZZ_CHECK(static_cast<size_t>(blob.file) < metadata.files.size());
  MEG_FUZZ_CHECK(blob.offset + blob.length >= blob.offset);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meg::checkpoint::PickleBudget budget(size);
  const auto metadata =
      meg::checkpoint::read_dist_metadata(std::as_bytes(std::span(data, size)), "fuzz", &budget);
  if (!metadata.has_value()) {
    MEG_FUZZ_CHECK(!metadata.error().message().empty());
    MEG_FUZZ_CHECK(metadata.error().message().find('\n') == std::string::npos);
    return 0;
  }
  for (const std::string& file : metadata->files) {
    const auto place = (std::filesystem::path("/folder") / file).lexically_normal();
    MEG_FUZZ_CHECK(place.string().starts_with("/folder/"));
  }
  for (const meg::checkpoint::DistTensor& tensor : metadata->tensors) {
    MEG_FUZZ_CHECK(meg::checkpoint::check_chunks(tensor).ok());
    for (const meg::checkpoint::DistChunk& chunk : tensor.chunks) check_blob(*metadata, chunk.blob);
  }
  for (const meg::checkpoint::DistObject& object : metadata->objects)
    check_blob(*metadata, object.blob);
  return 0;
}
