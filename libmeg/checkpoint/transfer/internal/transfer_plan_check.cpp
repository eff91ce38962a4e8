#include "libmeg/checkpoint/transfer/internal/transfer_plan_check.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"

namespace meg::checkpoint {
namespace {

Status misfit(const TensorTransfer& transfer, std::string_view what) {
  return make_error(StatusCode::kInternal, "plan: {}: {}", transfer.name, what);
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

/// The product of sizes; nullopt where they do not fit, with room for any element's size.
std::optional<int64_t> elements(const std::vector<int64_t>& sizes) {
  uint64_t product = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || !checked_multiply(product, static_cast<uint64_t>(size), &product)) {
      return std::nullopt;
    }
  }
  // 8 bytes an element still leave the number of bytes below 2^61, and sums of two of them
  // positive.
  if (product > uint64_t{1} << 58) return std::nullopt;
  return static_cast<int64_t>(product);
}

/// Whether a box lies inside axes of these sizes, whose product fits.
bool is_inside(const Box& box, const std::vector<int64_t>& axes) {
  if (box.offsets.size() != axes.size() || box.sizes.size() != axes.size()) return false;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (box.offsets[i] < 0 || box.sizes[i] < 0 || box.offsets[i] > axes[i] ||
        box.sizes[i] > axes[i] - box.offsets[i]) {
      return false;
    }
  }
  return true;
}

bool is_order_of(const std::vector<int>& order, size_t axes) {
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> expected(axes);
  std::iota(expected.begin(), expected.end(), 0);
  return order.empty() || sorted == expected;
}

/// Whether [first, first + count) lies in a box, and is all of it where order is not natural.
bool is_range_of(const Box& box, int64_t first, int64_t count, const std::vector<int>& order) {
  const int64_t all = box.elements();
  if (first < 0 || count < 0 || first > all || count > all - first) return false;
  return count == all || std::is_sorted(order.begin(), order.end());
}

Status check_box(const TensorTransfer& transfer) {
  if (transfer.axes.empty() || transfer.source_extent < 0 || !elements(transfer.axes) ||
      !elements(transfer.spanned_axes())) {
    return misfit(transfer, "axes");
  }
  const DType source = transfer.source_dtype();
  const bool converts = source != transfer.target_dtype;
  if (converts && !(is_float(source) && is_float(transfer.target_dtype))) {
    return misfit(transfer, "types that are not converted");
  }
  return Status();
}

/// Whether two boxes share an element.
bool overlap(const Box& a, const Box& b) {
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.offsets[i] >= b.offsets[i] + b.sizes[i] || b.offsets[i] >= a.offsets[i] + a.sizes[i]) {
      return false;
    }
  }
  return true;
}

/// Whether no two of them share an element. Only boxes that overlap on the first axis are compared
/// with each other.
bool are_disjoint(std::vector<Box> boxes) {
  std::erase_if(boxes, [](const Box& box) { return box.elements() == 0; });
  std::sort(boxes.begin(), boxes.end(),
            [](const Box& a, const Box& b) { return a.offsets < b.offsets; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    const int64_t end = boxes[i].offsets[0] + boxes[i].sizes[0];
    for (size_t k = i + 1; k < boxes.size() && boxes[k].offsets[0] < end; ++k) {
      if (overlap(boxes[i], boxes[k])) return false;
    }
  }
  return true;
}

Status check_sources(const TensorTransfer& transfer) {
  std::vector<int64_t> axes = transfer.axes;
  axes[0] = transfer.source_extent;
  int64_t found = 0;
  std::vector<Box> boxes;
  for (const Piece& piece : transfer.sources) {
    if (piece.source == nullptr || !is_inside(piece.box, axes)) {
      return misfit(transfer, "source box");
    }
    if (!is_order_of(piece.memory_order, axes.size())) return misfit(transfer, "memory_order");
    if (!is_range_of(piece.box, piece.first, piece.source->elements(), piece.memory_order)) {
      return misfit(transfer, "source range");
    }
    if (piece.source->dtype() != transfer.source_dtype()) return misfit(transfer, "source type");
    for (Box& box : boxes_of_range(piece.box, piece.first, piece.source->elements())) {
      boxes.push_back(std::move(box));
    }
    found += piece.source->elements();
  }
  if (!are_disjoint(std::move(boxes))) return misfit(transfer, "sources that overlap");
  // Disjoint boxes inside of the whole that have as many elements as it does tile it.
  return found == *elements(axes) ? Status() : misfit(transfer, "source_extent");
}

/// A part of a sink that a transfer writes.
struct Written {
  uint64_t begin = 0, end = 0;
  const TensorTransfer* transfer = nullptr;
};

Status check_target(const TensorTransfer& transfer, const TransferTarget& target,
                    std::span<const std::unique_ptr<TensorSink>> sinks,
                    std::vector<std::vector<Written>>* written) {
  const auto sink = static_cast<size_t>(target.sink);
  if (target.sink < 0 || sink >= sinks.size()) return misfit(transfer, "sink");
  if (!is_inside(target.box, transfer.axes)) return misfit(transfer, "target box");
  if (target.range.has_value() &&
      !is_range_of(target.box, target.range->first, target.range->count, {})) {
    return misfit(transfer, "target range");
  }
  const auto bytes = static_cast<uint64_t>(target.elements() * dtype_size(transfer.target_dtype));
  if (bytes > sinks[sink]->bytes() || target.offset > sinks[sink]->bytes() - bytes) {
    return misfit(transfer, "the sink's bytes");
  }
  (*written)[sink].push_back({target.offset, target.offset + bytes, &transfer});
  return Status();
}

Status check_coverage(uint64_t bytes, int sink, std::vector<Written> parts) {
  std::sort(parts.begin(), parts.end(), [](const Written& a, const Written& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const Written& part : parts) {
    // Sorted by begin and end, so an empty part precedes the part that begins at the same byte.
    if (part.begin < end) return misfit(*part.transfer, "bytes of a sink that are written twice");
    if (part.begin > end) return misfit(*part.transfer, "bytes of a sink before it are missing");
    end = part.end;
  }
  if (end == bytes) return Status();
  return make_error(StatusCode::kInternal, "plan: sink {}: expected {} bytes, found {}", sink,
                    bytes, end);
}

}  // namespace

/// These checks are the proof on which the copier's arithmetic rests: it indexes, multiplies and
/// copies without looking again. Sizes come from files of strangers, plans from our own code; what
/// does not fit is a plan that would leave bytes of an output unwritten or write them twice, and
/// the file would still have a right size and a right CRC of the wrong content. Hence kInternal,
/// and before the first byte is written.
Status check_transfers(std::span<const TensorTransfer> transfers,
                       std::span<const std::unique_ptr<TensorSink>> sinks) {
  std::vector<std::vector<Written>> written(sinks.size());
  for (const TensorTransfer& transfer : transfers) {
    MEG_RETURN_IF_ERROR(check_box(transfer));
    MEG_RETURN_IF_ERROR(check_sources(transfer));
    for (const TransferTarget& target : transfer.targets) {
      MEG_RETURN_IF_ERROR(check_target(transfer, target, sinks, &written));
    }
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    MEG_RETURN_IF_ERROR(
        check_coverage(sinks[i]->bytes(), static_cast<int>(i), std::move(written[i])));
  }
  return Status();
}

}  // namespace meg::checkpoint
