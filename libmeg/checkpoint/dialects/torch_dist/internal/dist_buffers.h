#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/flat_state.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"

namespace meg::checkpoint {

/// The flat buffer in which a distributed optimizer keeps the state of one model-parallel rank: all
/// parameters one after another in reverse order, cut into buckets. It is saved as tensors a bucket
/// (dp_reshardable) or in one object (dp_zero_gather_scatter); names of parameters are in neither.
class DistBuffers {
 public:
  using Source = std::shared_ptr<const TensorSource>;

  /// A parameter of the rank.
  struct Parameter {
    std::string name;  ///< For messages.
    FlatParameter flat;
    Source weight;
  };

  /// rank: pipeline rank * tensor-parallel size + tensor rank. kNotFound where the folder has none
  /// for it; kUnsupported, by name: several buffers, other forms. The folder outlives the result.
  static Result<DistBuffers> open(const DistFolder& folder, int64_t rank);

  /// The state of parameters in the order of named_parameters(): for every kind ("param",
  /// "exp_avg") a source each. kUnsupported where these parameters do not fill the buckets,
  /// kCorruption where their masters are not those of the weights.
  Result<std::map<std::string, std::vector<Source>>> cut(std::span<const Parameter> parameters,
                                                         const FlatRun& run) const;

 private:
  DistBuffers(const DistFolder& folder, std::string prefix)
      : folder_(&folder), prefix_(std::move(prefix)) {}

  Status read_tensors();
  Status read_lengths();
  Status read_object(const DistObject& object);
  Result<std::string> first_stranger(std::span<const Parameter> parameters,
                                     std::span<const FlatBuffer::Place> places) const;
  Status unsupported(std::string_view what) const;

  const DistFolder* folder_;
  std::string prefix_;  // of names of this rank's tensors and objects
  FlatState state_;     // its kinds are sources_
  std::map<std::string, std::vector<Source>> sources_;
};

}  // namespace meg::checkpoint
