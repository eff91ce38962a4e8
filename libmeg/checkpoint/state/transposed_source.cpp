#include "libmeg/checkpoint/state/transposed_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "libmeg/base/per_thread.h"
#include "libmeg/io/mapped_file.h"

namespace meg::checkpoint {
namespace {

/// Stripes of a result that are in use at once: one, or three if heads are assembled from query,
/// key and value.
constexpr size_t kStripes = 3;

/// The more rows a stripe has, the longer are the reads of the source's rows: 10 MiB hold most
/// matrices of GPT-2 whole.
constexpr int64_t kLeastStripe = int64_t{64} << 10, kLargestStripe = int64_t{10} << 20;
/// Rows of the source are taken from mapped memory in runs of at least a line of the cache; shorter
/// ones are made of stripes.
constexpr int64_t kLeastMappedRun = 64;
/// The default share of a thread.
constexpr int64_t kShare = int64_t{24} << 20;

/// Rows of the source that are transposed at once.
constexpr int64_t kBlockRows = 64;
/// Streams that are read side by side while rows of the result are written: of two bytes an element
/// a line of the cache.
constexpr size_t kStreams = 32;
/// Rows are kept apart by a line of the cache more: at distances of a power of two, as widths of
/// models are, all would compete for a few places of it.
constexpr size_t kLine = 64;

/// Rows in memory.
struct Rows {
  std::byte* bytes = nullptr;
  size_t pitch = 0;  ///< Bytes from one to the next.
};

/// A square of elements, its rows a vector each.
template <class T>
struct Tile {
  typedef T Row __attribute__((vector_size(16)));

  static constexpr size_t kRows = sizeof(Row) / sizeof(T);
  using Places = std::make_index_sequence<kRows>;

  // No std::array: what is given to a template loses the attribute of vectors.
  Row rows[kRows];

  /// Elements of two rows, interleaved, from the first-th of both on.
  template <size_t first, size_t... I>
  static Row mixed(const Row& a, const Row& b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, (first + I / 2 + (I % 2) * kRows)...);
  }

  /// Row i and row i + kRows / 2 become rows 2 i and 2 i + 1, their elements interleaved. Done for
  /// each halving of the number of rows this is the transpose.
  void transpose() {
    for (size_t rest = kRows; rest > 1; rest /= 2) {
      const Tile before = *this;
      for (size_t i = 0; i < kRows / 2; ++i) {
        const Row &a = before.rows[i], &b = before.rows[i + kRows / 2];
        rows[2 * i] = mixed<0>(a, b, Places());
        rows[2 * i + 1] = mixed<kRows / 2>(a, b, Places());
      }
    }
  }
};

/// Columns of `to` from the first on are rows of `from`, element by element.
template <class T>
void turn_elements(const Rows& from, size_t from_rows, const Rows& to, size_t to_rows) {
  for (size_t row = 0; row < to_rows; ++row) {
    for (size_t i = 0; i < from_rows; ++i) {
      std::memcpy(to.bytes + row * to.pitch + i * sizeof(T),
                  from.bytes + i * from.pitch + row * sizeof(T), sizeof(T));
    }
  }
}

/// The same for Tile<T>::kRows rows on both sides.
template <class T>
void turn_tile(const Rows& from, const Rows& to) {
  Tile<T> tile;
  for (size_t i = 0; i < Tile<T>::kRows; ++i) {
    std::memcpy(&tile.rows[i], from.bytes + i * from.pitch, sizeof(tile.rows[i]));
  }
  tile.transpose();
  for (size_t i = 0; i < Tile<T>::kRows; ++i) {
    std::memcpy(to.bytes + i * to.pitch, &tile.rows[i], sizeof(tile.rows[i]));
  }
}

/// The same for any number of rows.
template <class T>
void turn(const Rows& from, size_t from_rows, const Rows& to, size_t to_rows) {
  constexpr size_t kTile = Tile<T>::kRows;
  static_assert(kStreams % kTile == 0);
  for (size_t begin = 0; begin < from_rows; begin += kStreams) {
    const size_t end = std::min(begin + kStreams, from_rows);
    for (size_t row = 0; row < to_rows; row += kTile) {
      for (size_t i = begin; i < end; i += kTile) {
        const Rows part{from.bytes + i * from.pitch + row * sizeof(T), from.pitch};
        const Rows out{to.bytes + row * to.pitch + i * sizeof(T), to.pitch};
        const size_t streams = std::min(kTile, end - i), rows = std::min(kTile, to_rows - row);
        if (streams == kTile && rows == kTile) {
          turn_tile<T>(part, out);
        } else {
          turn_elements<T>(part, streams, out, rows);
        }
      }
    }
  }
}

/// Rows [first, first + rows) of a source, which were made.
struct Stripe {
  uint64_t source = 0;  // its number; 0: none
  int64_t first = 0, rows = 0;
  uint64_t used = 0;  // when it was last asked for
  std::vector<std::byte> bytes;

  bool has(uint64_t of_source, int64_t row) const {
    return source == of_source && row >= first && row < first + rows;
  }
};

/// What a thread keeps, for reads that follow each other.
struct StripeCache {
  std::array<Stripe, kStripes> stripes;
  std::vector<std::byte> block;
  uint64_t clock = 0;
  uint64_t mapped_source = 0;  // the number of what is mapped; 0: none
  io::MappedPart mapped;
  std::vector<const std::byte*> rows;  // of what is mapped

  int64_t share = kShare;  // bytes of all stripes
  bool may_map = true;

  int64_t stripe_bytes() const {
    return std::clamp(share / 2 / static_cast<int64_t>(kStripes), kLeastStripe, kLargestStripe);
  }

  /// Stripes and what is mapped have a half each.
  int64_t mapped_bytes() const { return may_map ? share / 2 : 0; }

  /// That which has a source's row, or the one that was not asked for the longest.
  Stripe& find(uint64_t source, int64_t row) {
    auto found = std::find_if(stripes.begin(), stripes.end(),
                              [&](const Stripe& one) { return one.has(source, row); });
    if (found == stripes.end()) {
      found = std::min_element(stripes.begin(), stripes.end(),
                               [](const Stripe& a, const Stripe& b) { return a.used < b.used; });
    }
    found->used = ++clock;
    return *found;
  }
};

StripeCache& thread_cache() {
  static PerThread<StripeCache> caches;
  return caches.get();
}

std::atomic<uint64_t> next_number = 1;

class TransposedSource final : public TensorSource {
 public:
  TransposedSource(std::shared_ptr<const TensorSource> source, int64_t rows, int64_t columns)
      : TensorSource(source->dtype(), rows * columns),
        source_(std::move(source)),
        rows_(rows),
        columns_(columns),
        size_(static_cast<size_t>(dtype_size(dtype()))),
        pitch_(static_cast<size_t>(columns) * size_ + kLine) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    while (!into.empty()) {
      const int64_t row = first / columns_;
      const auto whole_rows = static_cast<int64_t>(into.size() / size_) / columns_;
      if (first % columns_ == 0 && whole_rows * static_cast<int64_t>(size_) >= kLeastMappedRun) {
        if (map_rows()) {
          turn_mapped(row, whole_rows, into);
          into = into.subspan(static_cast<size_t>(whole_rows * columns_) * size_);
          first += whole_rows * columns_;
          continue;
        }
      }
      MEG_ASSIGN_OR_RETURN(const Stripe* stripe, stripe_with(row));
      const auto in_row = static_cast<size_t>(first % columns_) * size_;
      const size_t bytes = std::min(into.size(), static_cast<size_t>(columns_) * size_ - in_row);
      const size_t place = static_cast<size_t>(row - stripe->first) * pitch_ + in_row;
      std::memcpy(into.data(), stripe->bytes.data() + place, bytes);
      into = into.subspan(bytes);
      first += static_cast<int64_t>(bytes / size_);
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return source_->recorded_crcs(); }

  /// What [rows, columns] of the transpose are, where nothing is transposed; nullptr for other
  /// shapes.
  std::shared_ptr<const TensorSource> turned_back(int64_t rows, int64_t columns) const {
    return rows == columns_ && columns == rows_ ? source_ : nullptr;
  }

 private:
  /// Maps the source's rows, for this thread; false if they are not in one file, near each other,
  /// or if the file cannot be mapped, in which case reading it reports the error.
  bool map_rows() const {
    StripeCache& cache = thread_cache();
    if (cache.mapped_source == number_) return true;
    const std::vector<FileExtent> extents = source_->file_extents();
    if (extents.empty()) return false;
    const io::PooledFile* file = extents[0].file;
    uint64_t begin = extents[0].offset, end = begin;
    const size_t row_bytes = static_cast<size_t>(rows_) * size_;
    for (const FileExtent& one : extents) {
      if (one.file != file || one.bytes % row_bytes != 0) return false;
      begin = std::min(begin, one.offset);
      end = std::max(end, one.offset + one.bytes);
    }
    if (end - begin > static_cast<uint64_t>(cache.mapped_bytes())) return false;
    cache.mapped_source = 0;
    cache.mapped = {};
    const auto open = file->pin();
    if (!open.has_value()) return false;
    auto mapped = io::MappedPart::map(**open, begin, end - begin);
    if (!mapped.has_value()) return false;
    cache.mapped = *std::move(mapped);
    cache.rows.clear();
    for (const FileExtent& one : extents) {
      const std::byte* row = cache.mapped.bytes().data() + (one.offset - begin);
      for (size_t i = 0; i < one.bytes / row_bytes; ++i) cache.rows.push_back(row + i * row_bytes);
    }
    cache.mapped_source = number_;
    return true;
  }

  /// Rows of the result from those that are mapped. The columns, which are far apart in the file,
  /// are first brought near each other.
  void turn_mapped(int64_t row, int64_t rows, std::span<std::byte> into) const {
    StripeCache& cache = thread_cache();
    const auto bytes = static_cast<size_t>(rows) * size_;
    const auto width = static_cast<size_t>(columns_) * size_;
    cache.block.resize(static_cast<size_t>(kBlockRows) * (bytes + kLine));
    const Rows from{cache.block.data(), bytes + kLine};
    for (size_t column = 0; column < cache.rows.size(); column += kBlockRows) {
      const size_t count = std::min<size_t>(kBlockRows, cache.rows.size() - column);
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(from.bytes + i * from.pitch,
                    cache.rows[column + i] + static_cast<size_t>(row) * size_, bytes);
      }
      turn_block(from, count, {into.data() + column * size_, width}, static_cast<size_t>(rows));
    }
  }

  /// The stripe that has a row of the result, valid until the thread's next call.
  Result<const Stripe*> stripe_with(int64_t row) const {
    StripeCache& cache = thread_cache();
    Stripe& kept = cache.find(number_, row);
    if (kept.has(number_, row)) return &kept;
    kept.source = 0;
    const int64_t at_once =
        std::max<int64_t>(1, cache.stripe_bytes() / static_cast<int64_t>(pitch_));
    const int64_t first = row / at_once * at_once;
    const int64_t rows = std::min(at_once, rows_ - first);
    const size_t pitch = static_cast<size_t>(rows) * size_ + kLine;
    // Memory is taken out of the cache while it is filled: what is read may be transposed, too, and
    // then uses the cache itself.
    std::vector<std::byte> bytes = std::move(kept.bytes);
    std::vector<std::byte> block = std::move(cache.block);
    bytes.resize(static_cast<size_t>(rows) * pitch_);
    block.resize(static_cast<size_t>(kBlockRows) * pitch);
    for (int64_t column = 0; column < columns_; column += kBlockRows) {
      const int64_t count = std::min(kBlockRows, columns_ - column);
      const Rows from{block.data(), pitch};
      MEG_RETURN_IF_ERROR(read_rows(column, count, first, rows, from));
      turn_block(from, static_cast<size_t>(count),
                 {bytes.data() + static_cast<size_t>(column) * size_, pitch_},
                 static_cast<size_t>(rows));
    }
    cache.block = std::move(block);
    // Looked up again, because reading the source may have changed the order of use.
    Stripe& made = cache.find(number_, row);
    made = {.source = number_,
            .first = first,
            .rows = rows,
            .used = made.used,
            .bytes = std::move(bytes)};
    return &made;
  }

  /// Elements [first, first + count) of `rows` rows of the source.
  Status read_rows(int64_t row, int64_t rows, int64_t first, int64_t count, const Rows& to) const {
    const auto bytes = static_cast<size_t>(count) * size_;
    if (count < rows_) {
      for (int64_t i = 0; i < rows; ++i) {
        MEG_RETURN_IF_ERROR(source_->read((row + i) * rows_ + first,
                                          {to.bytes + static_cast<size_t>(i) * to.pitch, bytes}));
      }
      return Status();
    }
    // Whole rows are one read, and then moved apart, the last one first.
    MEG_RETURN_IF_ERROR(source_->read(row * rows_, {to.bytes, static_cast<size_t>(rows) * bytes}));
    for (auto i = static_cast<size_t>(rows); i-- > 1;) {
      std::memmove(to.bytes + i * to.pitch, to.bytes + i * bytes, bytes);
    }
    return Status();
  }

  void turn_block(const Rows& from, size_t from_rows, const Rows& to, size_t to_rows) const {
    switch (size_) {
      case 1:
        return turn<uint8_t>(from, from_rows, to, to_rows);
      case 2:
        return turn<uint16_t>(from, from_rows, to, to_rows);
      case 4:
        return turn<uint32_t>(from, from_rows, to, to_rows);
      default:
        return turn<uint64_t>(from, from_rows, to, to_rows);
    }
  }

  std::shared_ptr<const TensorSource> source_;
  int64_t rows_, columns_;
  size_t size_;
  size_t pitch_;  // of rows in a stripe
  uint64_t number_ = next_number++;
};

}  // namespace

void share_transposed_memory(int64_t bytes, bool may_map) {
  StripeCache& cache = thread_cache();
  cache.share = bytes;
  cache.may_map = may_map;
  // What is larger than its part of the new share goes.
  for (Stripe& stripe : cache.stripes) stripe = {};
  cache.mapped_source = 0;
  cache.mapped = {};
}

std::shared_ptr<const TensorSource> transposed_source(std::shared_ptr<const TensorSource> source,
                                                      int64_t rows, int64_t columns) {
  // Turning back a transpose reads the original: converting there and back costs no turning.
  if (const auto* turned = dynamic_cast<const TransposedSource*>(source.get())) {
    if (auto back = turned->turned_back(rows, columns)) return back;
  }
  return std::make_shared<TransposedSource>(std::move(source), rows, columns);
}

}  // namespace meg::checkpoint
