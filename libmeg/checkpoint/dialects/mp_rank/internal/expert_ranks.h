#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// The files that the expert-parallel ranks of one tensor and pipeline rank saved, as the one file
/// that a single expert-parallel rank would have saved: the first rank's, with the experts of all
/// of them, numbered through the layer. Everything else is taken from the first rank; only the
/// states of random number generators differ there.
/// num_experts: per layer, a multiple of files.size(). table: resolves the parameters of their
/// plain optimizers, which are merged into one, as experts have an optimizer of their own; nullptr:
/// leaves optimizers out. kCorruption if a rank does not have its share of the experts, or state
/// that does not fit; kUnsupported for other optimizers.
Result<TorchFile> merge_expert_ranks(const std::vector<std::shared_ptr<const TorchFile>>& files,
                                     int64_t num_experts, const model::ParameterTable* table);

/// The weights that expert-parallel ranks should hold alike but do not, as the CRC-32s say that the
/// files record; nothing is read. files: of one tensor and pipeline rank.
std::vector<std::string> drifted_weights(
    const std::vector<std::shared_ptr<const TorchFile>>& files);

/// The file of an expert-parallel rank without its experts: what all of these ranks hold alike.
/// with_optimizer: keeps the plain optimizer of these parameters, the first of the two that the
/// rank saved; otherwise the result has none.
Result<TorchFile> without_experts(const std::shared_ptr<const TorchFile>& file,
                                  bool with_optimizer);

}  // namespace meg::checkpoint
