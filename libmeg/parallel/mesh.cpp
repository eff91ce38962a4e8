#include "libmeg/parallel/mesh.h"

#include <algorithm>
#include <span>

#include "libmeg/model/data_parallel_size.h"

// Ranks are numbers in a mixed radix: each axis has a stride, the product of the sizes of faster
// axes. As in Megatron's RankGenerator everything else follows from that order, so that rank n here
// holds what rank n holds there.

namespace meg::parallel {
namespace {

constexpr Axis kDefaultOrder[] = {Axis::kTensor, Axis::kContext, Axis::kExpert, Axis::kData,
                                  Axis::kPipeline};
constexpr Axis kPipelineFirstOrder[] = {Axis::kTensor, Axis::kContext, Axis::kExpert,
                                        Axis::kPipeline, Axis::kData};

std::span<const Axis> axes_of(RankOrder order) {
  return order == RankOrder::kDataBeforePipeline ? kDefaultOrder : kPipelineFirstOrder;
}

Status check_positive(const Mesh::Sizes& sizes) {
  for (size_t axis = 0; axis < kAxes; ++axis) {
    // 0 asks for the data-parallel size to be counted from the world's.
    const bool counted_later = static_cast<Axis>(axis) == Axis::kData && sizes[axis] == 0;
    if (sizes[axis] >= 1 || counted_later) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "parallel sizes: expected at least 1 each, found {}", sizes[axis]);
  }
  return {};
}

/// Ranks that have the same part of the model, or of its experts.
Result<int> count_copies(const Mesh::Sizes& sizes, int world_size) {
  const auto size = [&sizes](Axis axis) { return sizes[static_cast<size_t>(axis)]; };
  MEG_ASSIGN_OR_RETURN(const int64_t copies,
                       model::data_parallel_size(world_size, size(Axis::kTensor),
                                                 size(Axis::kPipeline), size(Axis::kContext)));
  // Expert ranks are data-parallel ranks as far as dense layers are concerned: they are cut out of
  // them.
  if (copies % size(Axis::kExpert) == 0) return static_cast<int>(copies) / size(Axis::kExpert);
  return make_error(StatusCode::kInvalidArgument,
                    "expert parallel size: expected a divisor of {}, the data parallel size, found "
                    "{}",
                    copies, size(Axis::kExpert));
}

}  // namespace

Result<Mesh> Mesh::create(Sizes sizes, int rank, int world_size, RankOrder order) {
  if (rank < 0 || rank >= world_size) {
    return make_error(StatusCode::kInvalidArgument, "rank: expected 0 to {}, found {}",
                      world_size - 1, rank);
  }
  MEG_RETURN_IF_ERROR(check_positive(sizes));
  MEG_ASSIGN_OR_RETURN(const int copies, count_copies(sizes, world_size));
  int& data = sizes[static_cast<size_t>(Axis::kData)];
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
  // Linear in the world's size, once per group and run. Ascending order is what makes a rank's
  // number in the group its place on the axis.
  for (int other = 0; other < world_size(); ++other) {
    const bool belongs = std::ranges::all_of(kDefaultOrder, [&](Axis axis) {
      return std::ranges::count(axes, axis) != 0 || place(axis, other) == place(axis);
    });
    if (belongs) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace meg::parallel
