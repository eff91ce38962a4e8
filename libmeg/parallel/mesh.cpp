#include "libmeg/parallel/mesh.h"

#include <algorithm>
#include <span>

namespace meg::parallel {
namespace {

constexpr Axis kDefaultOrder[] = {Axis::kTensor, Axis::kContext, Axis::kExpert, Axis::kData,
                                  Axis::kPipeline};
constexpr Axis kPipelineFirstOrder[] = {Axis::kTensor, Axis::kContext, Axis::kExpert,
                                        Axis::kPipeline, Axis::kData};

std::span<const Axis> axes_of(RankOrder order) {
  return order == RankOrder::kDataBeforePipeline ? kDefaultOrder : kPipelineFirstOrder;
}

/// Of the ranks that hold one copy of a model; what is too large for an int counts as too many.
Result<int> ranks_of_a_copy(const Mesh::Sizes& sizes, int world_size) {
  int64_t ranks = 1;
  for (size_t axis = 0; axis < kAxes; ++axis) {
    const bool counted_later = static_cast<Axis>(axis) == Axis::kData && sizes[axis] == 0;
    if (sizes[axis] < 1 && !counted_later) {
      return make_error(StatusCode::kInvalidArgument,
                        "parallel sizes: expected at least 1 each, found {}", sizes[axis]);
    }
    if (static_cast<Axis>(axis) != Axis::kData)
      ranks = std::min<int64_t>(ranks * sizes[axis], int64_t{1} << 31);
  }
  if (world_size % ranks == 0) return static_cast<int>(ranks);
  return make_error(StatusCode::kInvalidArgument,
                    "world size: expected a multiple of tensor x pipeline x context parallel size "
                    "{} x {} x {}, found {}",
                    sizes[static_cast<size_t>(Axis::kTensor)],
                    sizes[static_cast<size_t>(Axis::kPipeline)],
                    sizes[static_cast<size_t>(Axis::kContext)], world_size);
}

}  // namespace

Result<Mesh> Mesh::create(Sizes sizes, int rank, int world_size, RankOrder order) {
  if (rank < 0 || rank >= world_size) {
    return make_error(StatusCode::kInvalidArgument, "rank: expected 0 to {}, found {}",
                      world_size - 1, rank);
  }
  MEG_ASSIGN_OR_RETURN(const int copy, ranks_of_a_copy(sizes, world_size));
  int& data = sizes[static_cast<size_t>(Axis::kData)];
  const int copies = world_size / copy;
  if (data != 0 && data != copies) {
    return make_error(StatusCode::kInvalidArgument,
                      "data parallel size: expected {} in a world of {} ranks, found {}", copies,
                      world_size, data);
  }
  data = copies;
  Mesh mesh;
  mesh.sizes_ = sizes;
  mesh.rank_ = rank;
  int stride = 1;
  for (const Axis axis : axes_of(order)) {
    mesh.strides_[static_cast<size_t>(axis)] = stride;
    stride *= mesh.size(axis);
  }
  return mesh;
}

int Mesh::world_size() const {
  int ranks = 1;
  for (const int size : sizes_) ranks *= size;
  return ranks;
}

std::vector<int> Mesh::group(std::initializer_list<Axis> axes) const {
  std::vector<int> ranks;
  for (int other = 0; other < world_size(); ++other) {
    const bool belongs = std::ranges::all_of(kDefaultOrder, [&](Axis axis) {
      return std::ranges::count(axes, axis) != 0 || place(axis, other) == place(axis);
    });
    if (belongs) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace meg::parallel
