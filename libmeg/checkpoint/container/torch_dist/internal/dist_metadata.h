#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/pickle_budget.h"

namespace meg::checkpoint {

/// The name of the file that describes a folder of torch.distributed.checkpoint.
inline constexpr std::string_view kDistMetadataFile = ".metadata";

/// A range of bytes in one of the folder's files that holds one item as torch.save writes it.
struct DistBlob {
  int file = 0;  ///< Index into DistMetadata::files.
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// A box of a tensor, saved on its own.
struct DistChunk {
  std::vector<int64_t> offsets;  ///< Position of its first element in each dimension.
  std::vector<int64_t> sizes;
  DistBlob blob;
};

/// A tensor in chunks that do not overlap and together cover it.
struct DistTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::vector<DistChunk> chunks;
};

/// Any Python value that is not a tensor in chunks.
struct DistObject {
  std::string name;
  DistBlob blob;
};

/// The content of a `.metadata` file; no other file has been read.
struct DistMetadata {
  std::vector<DistTensor> tensors;  ///< In the file's order, as are the objects.
  std::vector<DistObject> objects;
  std::vector<std::string> files;  ///< Paths relative to the folder, below it.
};

/// Whether the chunks cover the tensor, or are those that one of several ranks wrote.
enum class DistCoverage : uint8_t { kWhole, kPart };

/// Reads the bytes of a `.metadata` file (a pickle of torch's Metadata or of Megatron's
/// MCoreMetadata) and executes nothing. name: starts every error, all of which are one line.
/// kCorruption if it contradicts itself: chunks that overlap, leave gaps or reach past their
/// tensor, sizes that overflow, items without a place, files outside the folder. kUnsupported, by
/// name: sparse tensors, types without a DType, items that were transformed (compressed) on their
/// way to the file.
Result<DistMetadata> read_dist_metadata(std::span<const std::byte> bytes, const std::string& name,
                                        PickleBudget* budget,
                                        DistCoverage coverage = DistCoverage::kWhole);

/// The inverse: a pickle of torch's Metadata, which torch.distributed.checkpoint and Megatron read
/// if the chunks pass check_chunks().
Result<std::vector<std::byte>> write_dist_metadata(const DistMetadata& metadata);

/// Checks that the chunks of `tensor` are disjoint boxes inside its shape that together cover it;
/// otherwise kCorruption, whose message names no file.
Status check_chunks(const DistTensor& tensor);

/// Checks that every chunk of `tensor` lies inside its shape, whose bytes fit 63 bits; errors as
/// above.
Status check_boxes(const DistTensor& tensor);

}  // namespace meg::checkpoint
