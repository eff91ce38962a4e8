#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/model/hugging_face_names.h"

namespace meg::checkpoint {

/// Rows that are consecutive both in a Hugging Face tensor (after undoing its transposition) and in
/// the merged parameter.
struct RowRun {
  int64_t tensor_row = 0, parameter_row = 0;
  int64_t rows = 0;
};

/// The runs into which a tensor's rows divide, in the tensor's order. The rows of a matrix are
/// counted over all axes but the last one, those of a vector over all axes.
std::vector<RowRun> row_runs(const model::HuggingFaceTensor& tensor);

/// Elements in a row: 1 for a vector.
int64_t row_elements(const model::HuggingFaceTensor& tensor);

}  // namespace meg::checkpoint
