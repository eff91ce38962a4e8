#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"

namespace meg::checkpoint {

/// Divides the parameters of a folder as the ranks of a tensor-parallel group hold them.
class DistShards {
 public:
  /// folder: must outlive this object.
  /// tensor_parallel_size: that of the group, which for experts may be another one.
  DistShards(const DistFolder& folder, int64_t tensor_parallel_size)
      : folder_(folder), tensor_size_(tensor_parallel_size) {}

  /// The shape of one rank's part of a parameter. kCorruption if it cannot be divided.
  Result<std::vector<int64_t>> shape(const DistParameter& parameter) const;

  /// Every rank's part of `tensor`, which is the parameter's weight or a state of it: of the same
  /// shape, or flattened as core up to 0.14 saved the distributed optimizer: its leading dimensions
  /// count ranks' parts, and the last one the elements of a part. layer: within a stacked
  /// parameter. is_turned: what is flattened is the parameter's transpose, which is how core's
  /// GroupedMLP (--moe-use-legacy-grouped-gemm) stores its matrices.
  Result<std::vector<std::shared_ptr<const TensorSource>>> cut(const DistParameter& parameter,
                                                               const DistTensor& tensor,
                                                               std::optional<int64_t> layer,
                                                               bool is_turned = false) const;

  /// Every rank's part of a parameter that is assembled from pieces in its own dimensions.
  Result<std::vector<std::shared_ptr<const TensorSource>>> cut(
      const DistParameter& parameter, DType dtype, const std::vector<Piece>& pieces) const;

  /// The inverse: the whole parameter as pieces, one for each rank's part.
  Result<std::vector<Piece>> joined(
      const DistParameter& parameter,
      const std::vector<std::shared_ptr<const TensorSource>>& parts) const;

 private:
  std::vector<std::pair<Box, Box>> places(const DistParameter& parameter,
                                          const std::vector<int64_t>& part,
                                          int64_t tensor_rank) const;
  Result<std::vector<Piece>> pieces(const DistParameter& parameter, const DistTensor& tensor,
                                    std::optional<int64_t> layer, bool is_turned) const;
  Result<std::vector<Piece>> flattened_pieces(const DistParameter& parameter,
                                              const DistTensor& tensor,
                                              std::optional<int64_t> layer, bool is_turned) const;

  const DistFolder& folder_;
  int64_t tensor_size_;
};

}  // namespace meg::checkpoint
