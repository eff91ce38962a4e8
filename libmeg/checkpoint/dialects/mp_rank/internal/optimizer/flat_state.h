#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_buffer.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A flat buffer of a distributed optimizer as it was saved: its tensors hold the same elements for
/// every kind of state, without the names of parameters.
struct FlatState {
  enum class Form : uint8_t {
    kVector,     ///< 6ef5bdc: one tensor, padded at its end.
    kBuckets,    ///< One tensor per bucket, with its padding: core up to 0.5, dp_reshardable.
    kCoalesced,  ///< Core since 0.6: one tensor, buckets without their padding.
  };

  std::string name;  ///< For messages: "[0][torch.float32]".
  Form form = Form::kVector;
  std::vector<int64_t> lengths;  ///< Elements of each tensor.
  /// Elements of each tensor without its padding, if the file says so.
  std::optional<std::vector<int64_t>> unpadded;
  /// One tensor per element of lengths for each kind ("param", "exp_avg", "exp_avg_sq").
  std::map<std::string, std::vector<std::shared_ptr<const TensorSource>>> kinds;
};

/// What a run's args tell about its buffers.
struct FlatRun {
  std::optional<int64_t> data_parallel_size;  ///< With context parallelism.
  std::optional<int64_t> bucket_size = {};    ///< In elements, for stages that use buckets.
  std::optional<int64_t> num_buckets = {};    ///< Buckets per buffer, instead of a size.
  bool pads_for_bandwidth = false;            ///< --ddp-pad-buckets-for-high-nccl-busbw

  /// args: nullopt if there are none.
  static FlatRun of(const PickleGraph& graph, std::optional<PickleId> args);

  /// The same for the experts of one of several expert-parallel ranks, whose buffers are divided
  /// over fewer ranks: those that hold the same experts.
  FlatRun of_experts(int64_t tensor_model_parallel_size, int64_t expert_tensor_parallel_size,
                     int64_t expert_model_parallel_size) const;

  /// The rules that its revision of core may have applied to a buffer of this many elements, the
  /// most likely ones first.
  std::vector<FlatBufferRules> possible_rules(int64_t elements) const;
};

/// Reads the buffers that a distributed optimizer saved, from the value of distrib_optim.pt.
/// tensor: returns the elements of a node, nullptr if it is not a contiguous tensor. where: starts
/// errors. kUnsupported for buffers of several optimizers and other forms, by name.
Result<std::vector<FlatState>> parse_flat_states(
    const PickleGraph& graph, PickleId root,
    const std::function<std::shared_ptr<const TensorSource>(PickleId)>& tensor,
    const std::string& where);

/// A way in which parameters fill the tensors of a buffer.
struct FlatPlaces {
  /// The tensor's number and the first element in it, for each parameter.
  std::vector<FlatBuffer::Place> places;
  /// The alignment that gives these places; nullopt if several do.
  std::optional<int64_t> alignment;
};

/// The ways, usually one, in which parameters can fill the tensors of a buffer by the rules of
/// Megatron's revisions, all different. parameters: in the order of named_parameters().
std::vector<FlatPlaces> possible_places(const FlatState& state,
                                        std::span<const FlatParameter> parameters,
                                        const FlatRun& run);

}  // namespace meg::checkpoint
