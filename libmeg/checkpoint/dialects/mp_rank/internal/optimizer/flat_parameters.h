#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_state.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A parameter whose optimizer state is in a flat buffer.
struct BufferedParameter {
  std::string name;  ///< For messages.
  std::shared_ptr<const TensorSource> weight;
  bool is_shared_embedding = false;  ///< See FlatParameter.
};

/// Whether the weights are these fp32 masters, rounded. Looked at are a few numbers at both ends
/// and in the middle, enough to tell elements that stand in other places.
Result<bool> is_master_of(const TensorSource& master, const TensorSource& weight);

/// The state of a rank's parameters, which buffers hold without names: places are computed by the
/// rules that the run may have had, and fp32 masters compared with the weights, which are the
/// masters rounded. Nothing else is read.
/// chunks: of the model, each in the order of named_parameters(); one buffer of `states` for each
/// type of weights in each of them. where: starts errors.
/// For every kind ("param", "exp_avg") a source each, the parameters of all chunks in their order.
/// kUnsupported where the parameters do not fill the buffers, kCorruption where masters are not
/// those of the weights.
Result<std::map<std::string, std::vector<std::shared_ptr<const TensorSource>>>> cut_flat_states(
    std::span<const FlatState> states, std::span<const std::vector<BufferedParameter>> chunks,
    const FlatRun& run, const std::string& where);

}  // namespace meg::checkpoint
