#pragma once

#include "libmeg/checkpoint/state/piece.h"

namespace meg::checkpoint {

/// The elements of a piece in the order of its axes, whatever the order in its source's memory is.
/// The piece is a whole box where that order is another one.
std::shared_ptr<const TensorSource> natural_source(const Piece& piece);

}  // namespace meg::checkpoint
