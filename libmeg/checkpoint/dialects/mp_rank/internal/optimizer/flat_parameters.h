#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_state.h"
#include "libmeg/checkpoint/state/logical_parameter.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A parameter whose optimizer state is in a flat buffer.
struct BufferedParameter {
  std::string name;  ///< For messages.
  std::shared_ptr<const TensorSource> weight;
  bool is_shared_embedding = false;  ///< See FlatParameter.
};

/// Whether the weights are these fp32 masters, rounded. Compares a few numbers at both ends and in
/// the middle, which is enough to detect elements at the wrong place.
Result<bool> is_master_of(const TensorSource& master, const TensorSource& weight);

/// Whether the fp32 masters of a parameter belong to its weights, piece by piece; also if it has
/// none.
Result<bool> has_own_masters(const LogicalParameter& parameter);

struct CutStates {
  /// For every kind ("param", "exp_avg"), one source for each parameter of all chunks, in their
  /// order.
  std::map<std::string, std::vector<std::shared_ptr<const TensorSource>>> kinds;
  /// The alignment of parameters in the buffers, if the places of some tell.
  std::optional<int64_t> alignment;
};

/// Finds the state of a rank's parameters in its buffers, which hold no names: computes their
/// places by the rules that the run may have used, and compares the fp32 masters with the weights,
/// which must be the rounded masters. Reads nothing else.
/// chunks: the model's, each in the order of named_parameters(). states: a buffer for each dtype of
/// weights in each chunk. where: starts errors.
/// kUnsupported if the parameters do not fill the buffers, kCorruption if masters do not belong to
/// the weights.
Result<CutStates> cut_flat_states(std::span<const FlatState> states,
                                  std::span<const std::vector<BufferedParameter>> chunks,
                                  const FlatRun& run, const std::string& where);

}  // namespace meg::checkpoint
