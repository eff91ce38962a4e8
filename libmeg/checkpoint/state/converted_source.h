#pragma once

#include <memory>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The elements of a source in another dtype, converted by convert_floats(); both dtypes must be
/// float16, bfloat16 or float32. added: a number that is added to each, in float32, before it is
/// rounded.
std::shared_ptr<const TensorSource> converted(std::shared_ptr<const TensorSource> source,
                                              DType dtype, float added = 0);

}  // namespace meg::checkpoint
