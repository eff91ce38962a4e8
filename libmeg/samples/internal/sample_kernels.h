#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/base/cpu.h"

namespace meg::samples {

/// Fills the first `length` places of a sample's fields from text[0] to text[length]: tokens are
/// text[i], labels text[i + 1], positions i; where the label is `pad` the loss is masked, and each
/// pad becomes 0. None of the arrays overlap. Each instruction set has its version; the results do
/// not depend on it.
using FillFields = void (*)(const int64_t* text, size_t length, int64_t pad, int64_t* tokens,
                            int64_t* labels, float* loss_mask, int64_t* position_ids);

/// set: one that this processor runs.
FillFields fill_fields_kernel(InstructionSet set);

}  // namespace meg::samples
