#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/gpt_index.h"
#include "libmeg/samples/gpt_index_plan.h"

namespace meg::samples {

/// The samples that hold tokens of the sequences `range`, in order: one pass over the document
/// index, a search in the sample index for each place found, and one pass over the shuffle index.
/// lengths: of the whole dataset's sequences. kCorruption where an index points outside its data.
/// Memory: one bit a sample, and the answer.
Result<std::vector<int64_t>> samples_with_sequences(const GptIndex& index, const GptIndexPlan& plan,
                                                    dataset::LittleEndianArray<int32_t> lengths,
                                                    dataset::SequenceRange range);

}  // namespace meg::samples
