#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::parallel {

/// The axes along which the ranks of a run divide the work.
enum class Axis : uint8_t {
  kTensor,    ///< The matrices of a layer.
  kContext,   ///< The tokens of a sequence.
  kExpert,    ///< The experts of a layer.
  kData,      ///< The samples of a batch.
  kPipeline,  ///< The layers of a model.
};

inline constexpr size_t kAxes = 5;

/// The order of the axes in the numbering of ranks, the fastest first.
enum class RankOrder : uint8_t {
  kDataBeforePipeline,  ///< tp-cp-ep-dp-pp, Megatron's default.
  kPipelineBeforeData,  ///< tp-cp-ep-pp-dp: --use-tp-pp-dp-mapping.
};

/// The position of one rank among all ranks of a run, and its groups. Pure arithmetic. Mirrors
/// Megatron-LM megatron/core/parallel_state.py: RankGenerator.
class Mesh {
 public:
  /// Sizes indexed by Axis; 0 for kData: derived from the number of ranks.
  using Sizes = std::array<int, kAxes>;

  /// A single rank.
  Mesh() = default;

  /// Errors: kInvalidArgument if a size is below 1, if the sizes do not multiply to world_size (the
  /// message lists them), or if rank is not below world_size.
  static Result<Mesh> create(Sizes sizes, int rank, int world_size,
                             RankOrder order = RankOrder::kDataBeforePipeline);

  int rank() const { return rank_; }

  int world_size() const;

  int size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }

  /// This rank's place on an axis, 0 to size() - 1.
  int place(Axis axis) const { return place(axis, rank_); }

  /// The ranks that differ from this one on these axes only, including itself, ascending.
  std::vector<int> group(std::initializer_list<Axis> axes) const;

 private:
  int place(Axis axis, int rank) const {
    return rank / strides_[static_cast<size_t>(axis)] % size(axis);
  }

  Sizes sizes_ = {1, 1, 1, 1, 1};
  Sizes strides_ = {1, 1, 1, 1, 1};
  int rank_ = 0;
};

}  // namespace meg::parallel
