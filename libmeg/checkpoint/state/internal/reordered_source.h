#pragma once

#include "libmeg/checkpoint/state/piece.h"

namespace meg::checkpoint {

/// The elements of a piece in the order of its axes, whatever their order in its source's memory.
/// If the orders differ, the piece must be a whole box.
std::shared_ptr<const TensorSource> natural_source(const Piece& piece);

}  // namespace meg::checkpoint
