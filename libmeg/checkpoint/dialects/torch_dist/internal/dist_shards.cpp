#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_shards.h"

#include <algorithm>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/state/assembled_source.h"
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
                      "{}: {}: expected a shape that {} tensor ranks share evenly, found {}",
                      folder_.path(), text::printable(parameter.name, 200), tensor_size_,
                      shape_text(shape));
  }
  shape[*cut] /= tensor_size_;
  return shape;
}

Result<std::vector<Source>> DistShards::cut(const DistParameter& parameter,
                                            const DistTensor& tensor,
                                            std::optional<int64_t> layer) const {
  MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> part, shape(parameter));
  // The folder has whole tensors in chunks of the ranks that saved them. Chunks need not end where
  // a rank's part does: a part is put together of all that it touches.
  MEG_ASSIGN_OR_RETURN(const std::vector<Piece> found, pieces(parameter, tensor, layer));
  const std::optional<size_t> cut = cut_dimension(parameter);
  std::vector<Source> sources;
  for (int64_t t = 0; t < tensor_size_; ++t) {
    Box box = Box::whole(part);
    if (cut.has_value()) box.offsets[*cut] = t * part[*cut];
    if (!parameter.is_gated) {
      MEG_ASSIGN_OR_RETURN(Source source, assemble_box(tensor.dtype, found, box));
      sources.push_back(std::move(source));
      continue;
    }
    // A rank's part of the gate above its part of what is gated.
    const int64_t rows = part[0] / 2;
    // The whole matrix has all rows of the gate first. A rank needs its share of both halves, which
    // do not lie together in the file.
    std::vector<Piece> halves;
    for (int64_t half = 0; half < 2; ++half) {
      Box from = Box::whole(part);
      from.sizes[0] = rows;
      from.offsets[0] = (half * tensor_size_ + t) * rows;
      MEG_ASSIGN_OR_RETURN(Source source, assemble_box(tensor.dtype, found, from));
      Box to = from;
      to.offsets[0] = half * rows;
      halves.push_back({std::move(source), std::move(to), 0, {}});
    }
    MEG_ASSIGN_OR_RETURN(Source source, assemble(tensor.dtype, part, std::move(halves)));
    sources.push_back(std::move(source));
  }
  return sources;
}

/// The chunks of a layer, in the dimensions of the parameter.
Result<std::vector<Piece>> DistShards::pieces(const DistParameter& parameter,
                                              const DistTensor& tensor,
                                              std::optional<int64_t> layer) const {
  // The state of a distributed optimizer may be saved as each rank had it, flat.
  if (tensor.shape != parameter.weight->shape) return flattened_pieces(parameter, tensor, layer);
  const std::vector<int64_t> place = place_of(parameter, layer);
  const Box box = at_place(place, Box::whole(parameter.shape()));
  MEG_ASSIGN_OR_RETURN(std::vector<Piece> found, folder_.pieces(tensor, box));
  if (place.empty()) return found;
  for (Piece& piece : found) {
    const Box common = *intersection(piece.box, box);
    MEG_ASSIGN_OR_RETURN(piece.source, assemble_box(tensor.dtype, {piece}, common));
    // From here on the piece is of one layer's parameter and knows nothing of the stack.
    piece.box = without_place(place, common);
  }
  return found;
}

Result<std::vector<Piece>> DistShards::flattened_pieces(const DistParameter& parameter,
                                                        const DistTensor& tensor,
                                                        std::optional<int64_t> layer) const {
  const std::vector<int64_t> shape = parameter.shape();
  const std::vector<int64_t> place = place_of(parameter, layer);
  const size_t first = place.size();
  // The shape is [stack..., parts of each dimension..., elements of a part]: a rank's part of the
  // parameter, flattened, at the place of that rank.
  Box part = Box::whole(shape);
  bool fits =
      tensor.shape.size() == first + shape.size() + 1 &&
      std::equal(tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(first),
                 parameter.weight->shape.begin());
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const int64_t parts = tensor.shape[first + i];
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
  // Through all parts, the last dimension fastest.
  while (true) {
    Box row = at_place(place, {index, std::vector<int64_t>(shape.size(), 1)});
    row.offsets.push_back(0);
    row.sizes.push_back(tensor.shape.back());
    MEG_ASSIGN_OR_RETURN(Source source, folder_.box_source(tensor, row));
    for (size_t i = 0; i < index.size(); ++i) part.offsets[i] = index[i] * part.sizes[i];
    pieces.push_back({std::move(source), part, 0, {}});
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == tensor.shape[first + i - 1]) index[--i] = 0;
    if (i == 0) return pieces;
  }
}

}  // namespace meg::checkpoint
