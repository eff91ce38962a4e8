#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_shards.h"

#include <algorithm>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/state/assembled_source.h"
#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

/// The dimension that tensor parallelism cuts; the folder has the parameter whole.
std::optional<size_t> cut_dimension(const DistParameter& parameter) {
  switch (parameter.match.partition) {
    case model::Partition::kReplicated:
      return std::nullopt;
    case model::Partition::kColumns:
      return 1;
    default:
      return 0;
  }
}

/// The numbers that say which part of a stacked tensor is meant: of its layer, of its expert.
std::vector<int64_t> place_of(const DistParameter& parameter, std::optional<int64_t> layer) {
  std::vector<int64_t> place;
  if (layer.has_value()) place.push_back(*layer);
  if (parameter.stacked_expert.has_value()) place.push_back(*parameter.stacked_expert);
  return place;
}

/// A box at this place of a stacked tensor.
Box at_place(const std::vector<int64_t>& place, Box box) {
  box.offsets.insert(box.offsets.begin(), place.begin(), place.end());
  box.sizes.insert(box.sizes.begin(), place.size(), 1);
  return box;
}

Box without_place(const std::vector<int64_t>& place, Box box) {
  const auto count = static_cast<std::ptrdiff_t>(place.size());
  box.offsets.erase(box.offsets.begin(), box.offsets.begin() + count);
  box.sizes.erase(box.sizes.begin(), box.sizes.begin() + count);
  return box;
}

}  // namespace

Result<std::vector<int64_t>> DistShards::shape(const DistParameter& parameter) const {
  std::vector<int64_t> shape = parameter.shape();
  const std::optional<size_t> cut = cut_dimension(parameter);
  if (!cut.has_value()) return shape;
  // A gated matrix is two matrices above each other, each of which is cut.
  const int64_t parts = tensor_size_ * (parameter.is_gated ? 2 : 1);
  if (*cut >= shape.size() || shape[*cut] % parts != 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: {}: expected a shape that {} tensor ranks divide evenly, found {}",
                      folder_.path(), text::printable(parameter.name, 200), tensor_size_,
                      shape_text(shape));
  }
  shape[*cut] /= tensor_size_;
  return shape;
}

Result<std::vector<Source>> DistShards::cut(const DistParameter& parameter,
                                            const DistTensor& tensor, std::optional<int64_t> layer,
                                            bool is_turned) const {
  // The folder has whole tensors in chunks of the ranks that saved them. Chunks need not end where
  // a rank's part does: a part is assembled from all chunks that overlap it.
  MEG_ASSIGN_OR_RETURN(const std::vector<Piece> found, pieces(parameter, tensor, layer, is_turned));
  return cut(parameter, tensor.dtype, found);
}

Result<std::vector<Source>> DistShards::cut(const DistParameter& parameter, DType dtype,
                                            const std::vector<Piece>& pieces) const {
  MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> part, shape(parameter));
  std::vector<Source> sources;
  for (int64_t t = 0; t < tensor_size_; ++t) {
    std::vector<Piece> parts;
    for (auto& [whole, own] : places(parameter, part, t)) {
      MEG_ASSIGN_OR_RETURN(Source source, assemble_box(dtype, pieces, whole));
      parts.push_back({std::move(source), std::move(own), 0, {}});
    }
    MEG_ASSIGN_OR_RETURN(Source source, assemble(dtype, part, std::move(parts)));
    sources.push_back(std::move(source));
  }
  return sources;
}

Result<std::vector<Piece>> DistShards::joined(const DistParameter& parameter,
                                              const std::vector<Source>& parts) const {
  MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> part, shape(parameter));
  std::vector<Piece> pieces;
  for (int64_t t = 0; t < tensor_size_; ++t) {
    // All ranks have the whole of a parameter that is not divided.
    if (t > 0 && !cut_dimension(parameter).has_value()) break;
    for (auto& [whole, own] : places(parameter, part, t)) {
      pieces.push_back({box_of(parts[static_cast<size_t>(t)], part, own), std::move(whole), 0, {}});
    }
  }
  return pieces;
}

/// The boxes of a rank's part, each with its place in the whole parameter and in the part. part:
/// its shape.
std::vector<std::pair<Box, Box>> DistShards::places(const DistParameter& parameter,
                                                    const std::vector<int64_t>& part,
                                                    int64_t tensor_rank) const {
  const std::optional<size_t> cut = cut_dimension(parameter);
  Box whole = Box::whole(part);
  if (!parameter.is_gated || tensor_size_ == 1) {
    if (cut.has_value()) whole.offsets[*cut] = tensor_rank * part[*cut];
    return {{std::move(whole), Box::whole(part)}};
  }
  // The whole matrix has all rows of the gate first, a rank its share of the gate above its share
  // of what is gated.
  std::vector<std::pair<Box, Box>> halves;
  whole.sizes[0] = part[0] / 2;
  for (int64_t half = 0; half < 2; ++half) {
    Box own = whole;
    own.offsets[0] = half * whole.sizes[0];
    whole.offsets[0] = (half * tensor_size_ + tensor_rank) * whole.sizes[0];
    halves.emplace_back(whole, std::move(own));
  }
  return halves;
}

/// The chunks of a layer, in the dimensions of the parameter.
Result<std::vector<Piece>> DistShards::pieces(const DistParameter& parameter,
                                              const DistTensor& tensor,
                                              std::optional<int64_t> layer, bool is_turned) const {
  // The state of a distributed optimizer may be saved as each rank had it, flat.
  if (tensor.shape != parameter.weight->shape) {
    return flattened_pieces(parameter, tensor, layer, is_turned);
  }
  const std::vector<int64_t> place = place_of(parameter, layer);
  const Box box = at_place(place, Box::whole(parameter.shape()));
  MEG_ASSIGN_OR_RETURN(std::vector<Piece> found, folder_.pieces(tensor, box));
  if (place.empty()) return found;
  for (Piece& piece : found) {
    const Box common = *intersection(piece.box, box);
    MEG_ASSIGN_OR_RETURN(piece.source, assemble_box(tensor.dtype, {piece}, common));
    // From now on the piece belongs to one layer's parameter, independent of the stack.
    piece.box = without_place(place, common);
  }
  return found;
}

Result<std::vector<Piece>> DistShards::flattened_pieces(const DistParameter& parameter,
                                                        const DistTensor& tensor,
                                                        std::optional<int64_t> layer,
                                                        bool is_turned) const {
  const std::vector<int64_t> shape = parameter.shape();
  const std::vector<int64_t> place = place_of(parameter, layer);
  const size_t first = place.size();
  // The shape is [stack..., parts of each dimension..., elements of a part]: a rank's part of the
  // parameter, flattened, at the place of that rank.
  Box part = Box::whole(shape);
  // The dimension of the tensor's index that counts parts of a dimension of the parameter.
  const auto counted = [&](size_t i) { return is_turned ? shape.size() - 1 - i : i; };
  bool fits =
      (!is_turned || shape.size() == 2) && tensor.shape.size() == first + shape.size() + 1 &&
      std::equal(tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(first),
                 parameter.weight->shape.begin());
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const int64_t parts = tensor.shape[first + counted(i)];
    fits = parts > 0 && shape[i] % parts == 0;
    if (fits) part.sizes[i] /= parts;
  }
  // Each part was saved by a rank, in one chunk at least.
  const int64_t parts = fits ? Box::whole(shape).elements() / part.elements() : 0;
  fits = fits && parts <= static_cast<int64_t>(tensor.chunks.size());
  if (!fits || part.elements() != tensor.shape.back()) {
    return make_error(StatusCode::kCorruption,
                      "{}: {}: expected the shape of the parameter, {}, or its parts flattened, "
                      "found {}",
                      folder_.path(), text::printable(tensor.name, 200),
                      shape_text(parameter.weight->shape), shape_text(tensor.shape));
  }
  std::vector<Piece> pieces;
  // Bounded by the chunks that are there, see above, whatever the shape claims.
  std::vector<int64_t> index(shape.size());
  // Go through all parts, the last dimension fastest.
  while (true) {
    Box row = at_place(place, {index, std::vector<int64_t>(shape.size(), 1)});
    row.offsets.push_back(0);
    row.sizes.push_back(tensor.shape.back());
    MEG_ASSIGN_OR_RETURN(Source source, folder_.box_source(tensor, row));
    for (size_t i = 0; i < index.size(); ++i) part.offsets[i] = index[counted(i)] * part.sizes[i];
    if (is_turned) source = transposed_source(std::move(source), part.sizes[0], part.sizes[1]);
    pieces.push_back({std::move(source), part, 0, {}});
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == tensor.shape[first + i - 1]) index[--i] = 0;
    if (i == 0) return pieces;
  }
}

}  // namespace meg::checkpoint
