#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"

namespace meg::checkpoint {

/// The parameters of a folder as the ranks of a tensor-parallel group hold them.
class DistShards {
 public:
  /// folder: outlives this.
  DistShards(const DistFolder& folder, int64_t tensor_model_parallel_size)
      : folder_(folder), tensor_size_(tensor_model_parallel_size) {}

  /// The shape of one rank's part of a parameter. kCorruption where it does not divide.
  Result<std::vector<int64_t>> shape(const DistParameter& parameter) const;

  /// Every rank's part of `tensor`, which is the parameter's weight or a state of it: of the same
  /// shape, or flattened as core up to 0.14 saved the distributed optimizer, where behind the
  /// parameter's dimensions, counted in ranks' parts, the elements of a part stand in one row.
  /// layer: of a stacked parameter.
  Result<std::vector<std::shared_ptr<const TensorSource>>> cut(const DistParameter& parameter,
                                                               const DistTensor& tensor,
                                                               std::optional<int64_t> layer) const;

 private:
  Result<std::vector<Piece>> pieces(const DistParameter& parameter, const DistTensor& tensor,
                                    std::optional<int64_t> layer) const;
  Result<std::vector<Piece>> flattened_pieces(const DistParameter& parameter,
                                              const DistTensor& tensor,
                                              std::optional<int64_t> layer) const;

  const DistFolder& folder_;
  int64_t tensor_size_;
};

}  // namespace meg::checkpoint
