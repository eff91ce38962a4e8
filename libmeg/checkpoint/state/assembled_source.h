#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/state/piece.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A box of a tensor whose elements `source` has in row-major order. sizes: of the tensor; box:
/// inside it. Where the box is one run of the source its file extent and CRC are known as well.
std::shared_ptr<const TensorSource> box_of(std::shared_ptr<const TensorSource> source,
                                           const std::vector<int64_t>& sizes, const Box& box);

/// A whole tensor of these sizes, in row-major order, put together from its pieces: disjoint and of
/// one type, together all of it; flat ranges among them are of natural order. kInvalidArgument
/// where they are not.
Result<std::shared_ptr<const TensorSource>> assemble(DType dtype, const std::vector<int64_t>& sizes,
                                                     std::vector<Piece> pieces);

/// A box of a tensor, put together from the pieces of it that have a part in the box: disjoint,
/// together all of the box. pieces: placed in the tensor's axes; others than these may be among
/// them.
Result<std::shared_ptr<const TensorSource>> assemble_box(DType dtype,
                                                         const std::vector<Piece>& pieces,
                                                         const Box& box);

/// What two boxes of a tensor have in common; nullopt where that is nothing.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Compares what containers record of the bytes that a source reads from with these bytes, each
/// record once. ok where they record nothing.
Status check_recorded_crcs(const TensorSource& source);

}  // namespace meg::checkpoint
