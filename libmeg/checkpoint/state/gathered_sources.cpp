#include "libmeg/checkpoint/state/gathered_sources.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

/// Rows are read together with what lies between them up to so many bytes.
constexpr int64_t kBlockBytes = int64_t{256} << 10;

class ConcatenatedSource final : public TensorSource {
 public:
  explicit ConcatenatedSource(std::vector<Source> sources)
      : TensorSource(sources[0]->dtype(), total(sources)), sources_(std::move(sources)) {
    int64_t end = 0;
    for (const Source& source : sources_) ends_.push_back(end += source->elements());
  }

  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t size = dtype_size(dtype());
    auto at =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
    while (!into.empty()) {
      const int64_t begin = at == 0 ? 0 : ends_[at - 1];
      const auto bytes = std::min(into.size(), static_cast<size_t>((ends_[at] - first) * size));
      MEG_RETURN_IF_ERROR(sources_[at]->read(first - begin, into.first(bytes)));
      into = into.subspan(bytes);
      first = ends_[at++];
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return recorded_crcs_of(sources_); }

 private:
  static int64_t total(const std::vector<Source>& sources) {
    int64_t elements = 0;
    for (const Source& source : sources) elements += source->elements();
    return elements;
  }

  std::vector<Source> sources_;
  std::vector<int64_t> ends_;  // of each, in elements of the whole
};

class ColumnsSource final : public TensorSource {
 public:
  ColumnsSource(Source source, int64_t columns, int64_t first, int64_t count)
      : TensorSource(source->dtype(), source->elements() / columns * count),
        source_(std::move(source)),
        columns_(columns),
        first_(first),
        count_(count) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t size = dtype_size(dtype());
    const int64_t end = first + static_cast<int64_t>(into.size()) / size;
    const int64_t rows_at_once = std::max<int64_t>(kBlockBytes / (columns_ * size), 1);
    std::vector<std::byte> block;
    for (int64_t at = first; at < end;) {
      const int64_t row = at / count_;
      const int64_t last = std::min({(end - 1) / count_, row + rows_at_once - 1});
      const int64_t begin = row * columns_ + first_ + at % count_;
      const int64_t stop = std::min(end, (last + 1) * count_);
      const int64_t block_end = last * columns_ + first_ + (stop - 1) % count_ + 1;
      block.resize(static_cast<size_t>((block_end - begin) * size));
      MEG_RETURN_IF_ERROR(source_->read(begin, block));
      for (int64_t to = at; to < stop;) {
        const int64_t length = std::min(count_ - to % count_, stop - to);
        const int64_t from = to / count_ * columns_ + first_ + to % count_ - begin;
        std::memcpy(into.data() + (to - first) * size, block.data() + from * size,
                    static_cast<size_t>(length * size));
        to += length;
      }
      at = stop;
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return source_->recorded_crcs(); }

 private:
  Source source_;
  int64_t columns_, first_, count_;
};

class SideBySideSource final : public TensorSource {
 public:
  SideBySideSource(std::vector<Source> sources, int64_t rows, int64_t columns)
      : TensorSource(sources[0]->dtype(), rows * columns),
        sources_(std::move(sources)),
        rows_(rows),
        columns_(columns) {}

  /// Each source's part of the rows that are asked for is read at once.
  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t size = dtype_size(dtype());
    const int64_t end = first + static_cast<int64_t>(into.size()) / size;
    std::vector<std::byte> block;
    int64_t column = 0;
    for (const Source& source : sources_) {
      const int64_t width = source->elements() / rows_;
      const int64_t row = first / columns_;
      const int64_t count = (end - 1) / columns_ - row + 1;
      block.resize(static_cast<size_t>(count * width * size));
      MEG_RETURN_IF_ERROR(source->read(row * width, block));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t place = (row + i) * columns_ + column;
        const int64_t from = std::max(place, first);
        const int64_t to = std::min(place + width, end);
        if (from >= to) continue;
        std::memcpy(into.data() + (from - first) * size,
                    block.data() + (i * width + from - place) * size,
                    static_cast<size_t>((to - from) * size));
      }
      column += width;
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return recorded_crcs_of(sources_); }

 private:
  std::vector<Source> sources_;
  int64_t rows_, columns_;
};

}  // namespace

Source concatenated(std::vector<Source> sources) {
  if (sources.size() == 1) return sources[0];
  return std::make_shared<ConcatenatedSource>(std::move(sources));
}

Source columns_of(Source source, int64_t columns, int64_t first, int64_t count) {
  if (count == columns) return source;
  return std::make_shared<ColumnsSource>(std::move(source), columns, first, count);
}

Source side_by_side(std::vector<Source> sources, int64_t rows) {
  if (sources.size() == 1) return sources[0];
  int64_t columns = 0;
  for (const Source& source : sources) columns += source->elements() / rows;
  return std::make_shared<SideBySideSource>(std::move(sources), rows, columns);
}

}  // namespace meg::checkpoint
