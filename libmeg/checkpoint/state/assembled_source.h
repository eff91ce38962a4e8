#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/state/piece.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A box of a tensor whose elements `source` has in row-major order. sizes: the tensor's; box: must
/// lie inside them. If the box is one run of the source, its file extent and CRC are known as well.
std::shared_ptr<const TensorSource> box_of(std::shared_ptr<const TensorSource> source,
                                           const std::vector<int64_t>& sizes, const Box& box);

/// A whole tensor of these sizes, in row-major order, assembled from its pieces, which must be
/// disjoint, of one dtype, and together cover it; flat ranges among them must be in natural order.
/// Otherwise kInvalidArgument.
Result<std::shared_ptr<const TensorSource>> assemble(DType dtype, const std::vector<int64_t>& sizes,
                                                     std::vector<Piece> pieces);

/// A box of a tensor, assembled from the pieces that overlap it, which must be disjoint and
/// together cover it. pieces: placed in the tensor's axes; may include pieces that do not overlap
/// the box.
Result<std::shared_ptr<const TensorSource>> assemble_box(DType dtype,
                                                         const std::vector<Piece>& pieces,
                                                         const Box& box);

/// The intersection of two boxes of a tensor; nullopt if it is empty.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Compares one recorded CRC-32 with its bytes: kCorruption if it is not theirs.
Status check_recorded_crc(const RecordedCrc& recorded);

/// Compares the CRC-32s that containers record for the bytes that a source reads with these bytes,
/// each of them once. ok if nothing is recorded.
Status check_recorded_crcs(const TensorSource& source);

}  // namespace meg::checkpoint
