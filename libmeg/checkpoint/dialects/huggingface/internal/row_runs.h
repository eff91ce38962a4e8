#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/model/hugging_face_names.h"

namespace meg::checkpoint {

/// Rows that follow one another both in a Hugging Face tensor (once it is not transposed) and in
/// the merged parameter.
struct RowRun {
  int64_t tensor_row = 0, parameter_row = 0;
  int64_t rows = 0;
};

/// The runs that a tensor's rows make up, in the tensor's order. Rows: all axes but the last one of
/// a matrix; of a vector all axes.
std::vector<RowRun> row_runs(const model::HuggingFaceTensor& tensor);

/// Elements of a row: 1 for a vector.
int64_t row_elements(const model::HuggingFaceTensor& tensor);

}  // namespace meg::checkpoint
