#pragma once

#include <memory>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// The files that the expert-parallel ranks of one tensor and pipeline rank saved, as the one file
/// that a single expert-parallel rank would have saved: the first rank's, with the experts of all
/// of them, numbered through the layer. Everything else, which the ranks hold alike (but for the
/// states of random number generators), is the first one's.
/// num_experts: of a layer; files.size() divides it. table: of the parameters of their plain
/// optimizers, whose two (that of experts is another one) become one; nullptr: without optimizers.
/// kCorruption where a rank has not its share, or state that does not fit; kUnsupported for other
/// optimizers.
Result<TorchFile> merge_expert_ranks(const std::vector<std::shared_ptr<const TorchFile>>& files,
                                     int64_t num_experts, const model::ParameterTable* table);

}  // namespace meg::checkpoint
