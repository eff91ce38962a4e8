#include "libmeg/checkpoint/state/assembled_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libmeg/checkpoint/state/internal/box_rows.h"
#include "libmeg/checkpoint/state/internal/reordered_source.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

/// Short rows are read together in blocks of about this many bytes.
constexpr int64_t kBlockBytes = int64_t{1} << 20;

/// A range of consecutive rows.
struct RowRange {
  int64_t first = 0, end = 0;
};

/// The first row that begins at `position` of the whole or after it.
int64_t first_row_from(const BoxRows& rows, int64_t position) {
  int64_t low = 0, high = rows.rows();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (rows.position(middle) < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The rows that have elements among [first, end) of the whole.
RowRange rows_in(const BoxRows& rows, int64_t first, int64_t end) {
  // A row that begins up to run - 1 elements earlier still reaches into the range.
  return {first_row_from(rows, first - rows.run() + 1), first_row_from(rows, end)};
}

class BoxSource final : public TensorSource {
 public:
  BoxSource(std::shared_ptr<const TensorSource> whole, BoxRows rows)
      : TensorSource(whole->dtype(), rows.rows() * rows.run()),
        whole_(std::move(whole)),
        rows_(std::move(rows)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t size = dtype_size(dtype());
    while (!into.empty()) {
      const int64_t within = first % rows_.run();
      const int64_t count =
          std::min(rows_.run() - within, static_cast<int64_t>(into.size()) / size);
      const auto part = into.first(static_cast<size_t>(count * size));
      MEG_RETURN_IF_ERROR(whole_->read(rows_.position(first / rows_.run()) + within, part));
      into = into.subspan(part.size());
      first += count;
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return whole_->recorded_crcs(); }

 private:
  std::shared_ptr<const TensorSource> whole_;
  BoxRows rows_;
};

/// A piece whose elements are consecutive rows of the tensor's.
struct Part {
  std::shared_ptr<const TensorSource> source;
  BoxRows rows;
};

class AssembledSource final : public TensorSource {
 public:
  AssembledSource(DType dtype, int64_t elements, std::vector<Part> parts)
      : TensorSource(dtype, elements), parts_(std::move(parts)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t end = first + static_cast<int64_t>(into.size()) / dtype_size(dtype());
    // All parts are asked, as there are about as many as ranks.
    for (const Part& part : parts_) {
      MEG_RETURN_IF_ERROR(read_part(part, first, end, into));
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override {
    std::vector<std::shared_ptr<const TensorSource>> sources;
    for (const Part& part : parts_) sources.push_back(part.source);
    return recorded_crcs_of(sources);
  }

  bool is_hole(int64_t first, int64_t count) const override {
    return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
      const RowRange range = rows_in(part.rows, first, first + count);
      const int64_t rows = range.end - range.first;
      return rows == 0 ||
             part.source->is_hole(range.first * part.rows.run(), rows * part.rows.run());
    });
  }

 private:
  size_t bytes(int64_t elements) const {
    return static_cast<size_t>(elements * dtype_size(dtype()));
  }

  /// Reads what the part has of elements [first, end), which `into` is for.
  Status read_part(const Part& part, int64_t first, int64_t end, std::span<std::byte> into) const {
    const RowRange range = rows_in(part.rows, first, end);
    const int64_t run = part.rows.run();
    // A piece that is a column cut has short rows, far apart in the tensor but one after another in
    // the source: they are read together, and only copied one by one. A row of the block that lies
    // partly outside the range is read whole.
    const int64_t at_once = std::max<int64_t>(1, kBlockBytes / static_cast<int64_t>(bytes(run)));
    std::vector<std::byte> block;
    for (int64_t row = range.first; row < range.end;) {
      const int64_t count = std::min(at_once, range.end - row);
      if (count == 1) {
        const int64_t position = part.rows.position(row);
        const int64_t begin = std::max(first, position);
        const int64_t length = std::min(end, position + run) - begin;
        MEG_RETURN_IF_ERROR(part.source->read(row * run + begin - position,
                                              into.subspan(bytes(begin - first), bytes(length))));
      } else {
        block.resize(bytes(count * run));
        MEG_RETURN_IF_ERROR(part.source->read(row * run, block));
        deal_out(part, row, count, first, end, block, into);
      }
      row += count;
    }
    return Status();
  }

  void deal_out(const Part& part, int64_t row, int64_t count, int64_t first, int64_t end,
                std::span<const std::byte> block, std::span<std::byte> into) const {
    const int64_t run = part.rows.run();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = part.rows.position(row + i);
      const int64_t begin = std::max(first, position);
      const int64_t length = std::min(end, position + run) - begin;
      std::memcpy(into.data() + bytes(begin - first),
                  block.data() + bytes(i * run + begin - position), bytes(length));
    }
  }

  std::vector<Part> parts_;
};

Box relative_to(const std::vector<int64_t>& origin, Box box) {
  for (size_t i = 0; i < origin.size(); ++i) box.offsets[i] -= origin[i];
  return box;
}

/// The boxes of natural order that a piece is, each with its elements.
std::vector<Piece> boxes_of(const Piece& piece) {
  const int64_t elements = piece.source->elements();
  if (piece.first == 0 && elements == piece.box.elements()) {
    return {{natural_source(piece), piece.box, 0, {}}};
  }
  std::vector<Piece> boxes;
  int64_t first = 0;
  for (Box& box : boxes_of_range(piece.box, piece.first, elements)) {
    const int64_t count = box.elements();
    boxes.push_back({part_of(piece.source, first, count), std::move(box), 0, {}});
    first += count;
  }
  return boxes;
}

}  // namespace

std::shared_ptr<const TensorSource> box_of(std::shared_ptr<const TensorSource> source,
                                           const std::vector<int64_t>& sizes, const Box& box) {
  BoxRows rows(sizes, box);
  if (rows.rows() == 1) {
    const int64_t first = rows.position(0);
    return part_of(std::move(source), first, rows.run());
  }
  return std::make_shared<BoxSource>(std::move(source), std::move(rows));
}

/// Only the number of elements is compared: that the pieces do not overlap is the caller's to know.
Result<std::shared_ptr<const TensorSource>> assemble(DType dtype, const std::vector<int64_t>& sizes,
                                                     std::vector<Piece> pieces) {
  const int64_t expected = Box::whole(sizes).elements();
  int64_t elements = 0;
  std::vector<Part> parts;
  for (const Piece& piece : pieces) {
    if (piece.source->dtype() != dtype) {
      return make_error(StatusCode::kInvalidArgument, "expected pieces of {}, found one of {}",
                        dtype_name(dtype), dtype_name(piece.source->dtype()));
    }
    for (const Piece& box : boxes_of(piece)) {
      if (box.box.elements() == 0) continue;
      elements += box.box.elements();
      parts.push_back({box.source, BoxRows(sizes, box.box)});
    }
  }
  if (elements != expected) {
    return make_error(StatusCode::kInvalidArgument, "expected pieces of {} elements, found {}",
                      expected, elements);
  }
  // One box with as many elements as the whole has is the whole.
  if (parts.size() == 1) return parts[0].source;
  return std::shared_ptr<const TensorSource>(
      std::make_shared<AssembledSource>(dtype, elements, std::move(parts)));
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common = a;
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    const int64_t begin = std::max(a.offsets[i], b.offsets[i]);
    const int64_t end = std::min(a.offsets[i] + a.sizes[i], b.offsets[i] + b.sizes[i]);
    if (begin >= end) return std::nullopt;
    common.offsets[i] = begin;
    common.sizes[i] = end - begin;
  }
  return common;
}

Result<std::shared_ptr<const TensorSource>> assemble_box(DType dtype,
                                                         const std::vector<Piece>& pieces,
                                                         const Box& box) {
  std::vector<Piece> parts;
  for (const Piece& whole : pieces) {
    for (const Piece& piece : boxes_of(whole)) {
      const std::optional<Box> common = intersection(piece.box, box);
      if (!common.has_value()) continue;
      parts.push_back(
          {box_of(piece.source, piece.box.sizes, relative_to(piece.box.offsets, *common)),
           relative_to(box.offsets, *common),
           0,
           {}});
    }
  }
  return assemble(dtype, box.sizes, std::move(parts));
}

Status check_recorded_crc(const RecordedCrc& recorded) {
  std::vector<std::byte> chunk;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < recorded.extent.bytes; at += chunk.size()) {
    chunk.resize(std::min<uint64_t>(kBlockBytes, recorded.extent.bytes - at));
    MEG_RETURN_IF_ERROR(recorded.extent.file->read_exactly_at(recorded.extent.offset + at, chunk));
    crc = io::crc32(chunk, crc);
  }
  if (crc == recorded.crc) return Status();
  return make_error(StatusCode::kCorruption, "{}: {}: CRC-32: expected {:08x}, found {:08x}",
                    recorded.extent.file->path(), recorded.name, recorded.crc, crc);
}

Status check_recorded_crcs(const TensorSource& source) {
  for (const RecordedCrc& recorded : source.recorded_crcs()) {
    MEG_RETURN_IF_ERROR(check_recorded_crc(recorded));
  }
  return Status();
}

}  // namespace meg::checkpoint
