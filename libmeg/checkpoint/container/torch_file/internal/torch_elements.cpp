#include "libmeg/checkpoint/container/torch_file/internal/torch_elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace meg::checkpoint {
namespace {

/// Runs of elements of at least this many bytes are read straight to their place.
constexpr int64_t kRunBytes = 4096;
/// What is read at a time where elements do not lie in order.
constexpr int64_t kWindowBytes = int64_t{64} << 10;

template <size_t size>
void swap_each(std::span<std::byte> bytes) {
  for (size_t i = 0; i + size <= bytes.size(); i += size) {
    std::reverse(&bytes[i], &bytes[i] + size);
  }
}

/// A dimension of a box of elements: how many, and how far apart in the file and in the result.
struct Dim {
  int64_t size = 1;
  int64_t from = 0;  ///< Bytes.
  int64_t to = 0;    ///< Bytes.
};

/// Calls visit(from, to) with the byte offsets of every index of dims, the last one fastest.
template <class Visit>
Status for_each_index(std::span<const Dim> dims, int64_t from, int64_t to, const Visit& visit) {
  if (dims.empty()) return visit(from, to);
  for (int64_t i = 0; i < dims[0].size; ++i) {
    MEG_RETURN_IF_ERROR(for_each_index(dims.subspan(1), from, to, visit));
    from += dims[0].from;
    to += dims[0].to;
  }
  return {};
}

template <size_t item>
void scatter(std::span<const Dim> dims, const std::byte* from, std::byte* to) {
  if (dims.empty()) {
    std::memcpy(to, from, item);
    return;
  }
  for (int64_t i = 0; i < dims[0].size; ++i) {
    scatter<item>(dims.subspan(1), from + i * dims[0].from, to + i * dims[0].to);
  }
}

void scatter(int64_t item, std::span<const Dim> dims, const std::byte* from, std::byte* to) {
  switch (item) {
    case 1:
      return scatter<1>(dims, from, to);
    case 2:
      return scatter<2>(dims, from, to);
    case 4:
      return scatter<4>(dims, from, to);
    case 8:
      return scatter<8>(dims, from, to);
    default:
      return scatter<16>(dims, from, to);
  }
}

/// Copies boxes of a storage's elements to a place in memory, reading the file in its own order.
class Gatherer {
 public:
  Gatherer(const io::FileDescriptor& file, int64_t item, std::span<std::byte> into)
      : file_(file), item_(item), into_(into) {}

  /// Elements [first, first + count) of the row-major box `shape` with byte strides `strides`
  /// that begins at byte `from` of the file, to byte `to` of the result.
  Status copy_range(std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t from,
                    int64_t to, int64_t first, int64_t count) {
    if (count == 0) return {};
    if (shape.empty()) return copy_box({}, from, to);
    int64_t inner = 1;
    for (const int64_t size : shape.subspan(1)) inner *= size;
    const auto copy_inside = [&](int64_t index, int64_t begin, int64_t part) {
      return copy_range(shape.subspan(1), strides.subspan(1), from + index * strides[0], to, begin,
                        part);
    };
    int64_t index = first / inner;
    if (first % inner != 0) {  // the rest of a row
      const int64_t part = std::min(count, inner - first % inner);
      MEG_RETURN_IF_ERROR(copy_inside(index, first % inner, part));
      to += part * item_;
      count -= part;
      ++index;
    }
    if (const int64_t whole = count / inner; whole > 0) {
      std::vector<Dim> box = {{.size = whole, .from = strides[0], .to = inner * item_}};
      for (size_t i = 1; i < shape.size(); ++i) {
        box.push_back({.size = shape[i], .from = strides[i], .to = box.back().to / shape[i]});
      }
      MEG_RETURN_IF_ERROR(copy_box(std::move(box), from + index * strides[0], to));
      to += whole * inner * item_;
      count -= whole * inner;
      index += whole;
    }
    return count == 0 ? Status() : copy_inside(index, 0, count);
  }

 private:
  Status copy_box(std::vector<Dim> box, int64_t from, int64_t to);
  Status copy_window(std::span<const Dim> inner, int64_t from, int64_t to);

  const io::FileDescriptor& file_;
  int64_t item_;
  std::span<std::byte> into_;
  std::vector<std::byte> window_;
};

Status Gatherer::copy_box(std::vector<Dim> box, int64_t from, int64_t to) {
  std::erase_if(box, [](const Dim& dim) { return dim.size == 1; });
  // The file's order instead of the tensor's: a transposed tensor is read front to back once and
  // scattered in memory, rather than sought through element by element.
  std::stable_sort(box.begin(), box.end(),
                   [](const Dim& a, const Dim& b) { return a.from > b.from; });
  // Elements that lie one after another here and there are read to their place.
  int64_t run = item_;
  while (!box.empty() && box.back().from == run && box.back().to == run) {
    run *= box.back().size;
    box.pop_back();
  }
  if (run >= kRunBytes || box.empty()) {
    return for_each_index(box, from, to, [&](int64_t at, int64_t place) {
      return file_.read_exactly_at(
          static_cast<uint64_t>(at),
          into_.subspan(static_cast<size_t>(place), static_cast<size_t>(run)));
    });
  }
  // Runs too short to be worth a read of their own are scattered like everything else.
  if (run > item_) box.push_back({.size = run / item_, .from = item_, .to = item_});
  // The innermost dimensions that fit a window are read at once, of the next one as much as fits;
  // far steps are read one by one.
  size_t split = box.size();
  int64_t span = item_;
  // A step is near where less than half of a window would be read in vain, or a page at most.
  const auto is_near = [&](const Dim& dim) { return dim.from <= std::max(kRunBytes, 2 * span); };
  while (split > 0 && is_near(box[split - 1]) &&
         box[split - 1].from * (box[split - 1].size - 1) + span <= kWindowBytes) {
    --split;
    span += box[split].from * (box[split].size - 1);
  }
  const std::span<const Dim> inner = std::span(box).subspan(split);
  if (split == 0) return copy_window(inner, from, to);
  const Dim cut = box[split - 1];
  const int64_t step =
      is_near(cut) ? std::max<int64_t>(1, (kWindowBytes - span) / cut.from) : int64_t{1};
  std::vector<Dim> piece = {cut};
  piece.insert(piece.end(), inner.begin(), inner.end());
  return for_each_index(std::span(box).first(split - 1), from, to, [&](int64_t at, int64_t place) {
    for (int64_t i = 0; i < cut.size; i += step) {
      piece[0].size = std::min(step, cut.size - i);
      MEG_RETURN_IF_ERROR(copy_window(piece, at + i * cut.from, place + i * cut.to));
    }
    return Status();
  });
}

/// Reads what lies between the first and the last element and picks them out.
Status Gatherer::copy_window(std::span<const Dim> inner, int64_t from, int64_t to) {
  int64_t span = item_;
  for (const Dim& dim : inner) span += dim.from * (dim.size - 1);
  window_.resize(static_cast<size_t>(span));
  MEG_RETURN_IF_ERROR(file_.read_exactly_at(static_cast<uint64_t>(from), window_));
  scatter(item_, inner, window_.data(), &into_[static_cast<size_t>(to)]);
  return {};
}

}  // namespace

void swap_bytes(DType dtype, std::span<std::byte> bytes) {
  // A complex number is two numbers, each swapped for itself.
  const bool is_complex = dtype == DType::kComplex64 || dtype == DType::kComplex128;
  const int size = dtype_size(dtype) / (is_complex ? 2 : 1);
  if (size == 2) swap_each<2>(bytes);
  if (size == 4) swap_each<4>(bytes);
  if (size == 8) swap_each<8>(bytes);
}

Status gather_elements(const io::FileDescriptor& file, const TorchStorage& storage,
                       const TensorView& view, int64_t first, std::span<std::byte> into) {
  if (into.empty()) return {};
  const int64_t item = dtype_size(view.dtype);
  std::vector<int64_t> strides;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    // The stride of a single index was never checked and means nothing.
    strides.push_back(view.shape[i] == 1 ? 0 : view.strides[i] * item);
  }
  return Gatherer(file, item, into)
      .copy_range(view.shape, strides,
                  static_cast<int64_t>(storage.file_offset) + view.offset * item, 0, first,
                  static_cast<int64_t>(into.size()) / item);
}

}  // namespace meg::checkpoint
