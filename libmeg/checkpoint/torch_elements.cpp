#include "libmeg/checkpoint/torch_elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace meg {
namespace {

/// Runs of at least this many bytes are read by a system call, shorter ones from the mapping.
constexpr int64_t kReadBytes = 4096;
/// The system maps up to this much around a touched page.
constexpr uint64_t kTouchedStretch = uint64_t{64} << 10;
/// Stretches touched before the mapping is let go.
constexpr int kMaxTouched = 256;

template <size_t size>
void swap_each(std::span<std::byte> bytes) {
  for (size_t i = 0; i + size <= bytes.size(); i += size) {
    std::reverse(&bytes[i], &bytes[i] + size);
  }
}

/// Walks a view's runs: stretches of neighbouring elements as long as shape and strides allow.
class Runs {
 public:
  Runs(const TensorView& view, int64_t first) {
    size_t outer = view.shape.size();
    while (outer > 0 && (view.shape[outer - 1] == 1 || view.strides[outer - 1] == length_)) {
      --outer;
      length_ *= view.shape[outer];
    }
    shape_.assign(view.shape.begin(), view.shape.begin() + static_cast<ptrdiff_t>(outer));
    strides_.assign(view.strides.begin(), view.strides.begin() + static_cast<ptrdiff_t>(outer));
    index_.resize(outer);
    within_ = first % length_;
    start_ = view.offset;
    int64_t rest = first / length_;
    for (size_t i = outer; i-- > 0;) {
      index_[i] = rest % shape_[i];
      rest /= shape_[i];
      start_ += index_[i] * strides_[i];
    }
  }

  /// The element where the present run goes on, and what is left of it.
  int64_t element() const { return start_ + within_; }

  int64_t left() const { return length_ - within_; }

  void advance(int64_t elements) {
    within_ += elements;
    if (within_ < length_) return;
    within_ = 0;
    for (size_t i = shape_.size(); i-- > 0;) {
      start_ += strides_[i];
      if (++index_[i] < shape_[i]) return;
      start_ -= shape_[i] * strides_[i];
      index_[i] = 0;
    }
  }

 private:
  std::vector<int64_t> shape_, strides_, index_;
  int64_t length_ = 1, start_ = 0, within_ = 0;
};

}  // namespace

void swap_bytes(DType dtype, std::span<std::byte> bytes) {
  const bool is_complex = dtype == DType::kComplex64 || dtype == DType::kComplex128;
  const int size = dtype_size(dtype) / (is_complex ? 2 : 1);
  if (size == 2) swap_each<2>(bytes);
  if (size == 4) swap_each<4>(bytes);
  if (size == 8) swap_each<8>(bytes);
}

Status gather_elements(const FileDescriptor& file, const MappedFile& map,
                       const TorchStorage& storage, const TensorView& view, int64_t first,
                       std::span<std::byte> into) {
  if (into.empty()) return {};
  const int64_t item = dtype_size(view.dtype);
  const std::span<const std::byte> mapped = map.bytes().subspan(storage.file_offset, storage.bytes);
  Runs runs(view, first);
  uint64_t touched_at = 0;
  int touched = 0;
  while (!into.empty()) {
    const int64_t count = std::min(runs.left(), static_cast<int64_t>(into.size()) / item);
    const auto at = static_cast<uint64_t>(runs.element() * item);
    const auto length = static_cast<size_t>(count * item);
    if (count * item >= kReadBytes) {
      MEG_RETURN_IF_ERROR(file.read_exactly_at(storage.file_offset + at, into.first(length)));
    } else {
      std::memcpy(into.data(), &mapped[at], length);
      if (at / kTouchedStretch != touched_at || touched == 0) {
        touched_at = at / kTouchedStretch;
        if (++touched > kMaxTouched) {
          map.release(mapped);
          touched = 1;
        }
      }
    }
    into = into.subspan(length);
    runs.advance(count);
  }
  if (touched > 0) map.release(mapped);
  return {};
}

}  // namespace meg
