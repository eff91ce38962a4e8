#include "libmeg/dataset/internal/verify_items.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/dataset/internal/item_cursor.h"
#include "libmeg/dataset/internal/item_types.h"

namespace meg::dataset {
namespace {

constexpr int64_t kDocumentsAtATime = int64_t{1} << 16;

/// Bad items of one piece; `first` counts from the piece's first item. The loop over the good case
/// has no branch, so that the compiler makes vector instructions of it.
template <class T>
BadItems find_in_piece(std::span<const T> items, int64_t vocab_size) {
  T smallest = 0;
  T largest = 0;
  for (const T item : items) {
    smallest = std::min(smallest, item);
    largest = std::max(largest, item);
  }
  BadItems bad;
  if (smallest >= 0 && int64_t{largest} < vocab_size) return bad;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i] >= 0 && int64_t{items[i]} < vocab_size) continue;
    if (bad.count++ == 0) {
      bad.first = static_cast<int64_t>(i);
      bad.found = std::to_string(items[i]);
    }
  }
  return bad;
}

/// Gathers what the workers find, by whatever order they find it.
class BadItemsGatherer {
 public:
  void add(const BadItems& bad) {
    if (bad.count == 0) return;
    const std::lock_guard lock(mutex_);
    // The lowest place counts, whichever thread found it first: two runs of one file report the
    // same.
    const bool is_first = all_.count == 0 || bad.first < all_.first;
    const int64_t count = all_.count + bad.count;
    if (is_first) all_ = bad;
    all_.count = count;
  }

  /// May be called once the workers are done.
  const BadItems& all() const { return all_; }

 private:
  std::mutex mutex_;
  BadItems all_;
};

/// Runs work() on each of `workers` threads, but no more than there are `pieces`, and waits for
/// them. A single one is this thread.
template <class Work>
void run_on_workers(int workers, int64_t pieces, const Work& work) {
  const auto threads = static_cast<int>(std::min<int64_t>(workers, pieces));
  if (threads <= 1) {
    work();
    return;
  }
  ThreadPool pool(threads);
  for (int i = 0; i < pool.threads(); ++i) pool.submit([&work] { work(); });
  pool.wait();
}

/// Tells how far a scan of .bin has come; from any thread.
class ScanReport {
 public:
  ScanReport(const ProgressCallback& progress, const std::string& path, int64_t total_bytes)
      : progress_(progress), path_(path) {
    so_far_.total_bytes = total_bytes;
  }

  /// kCancelled where the scan should end.
  Status add(int64_t bytes) {
    if (!progress_) return Status();
    const std::lock_guard lock(mutex_);
    so_far_.bytes += bytes;
    if (progress_(so_far_)) return Status();
    return make_error(StatusCode::kCancelled, "{}: cancelled", path_);
  }

 private:
  const ProgressCallback& progress_;
  const std::string& path_;
  std::mutex mutex_;
  Progress so_far_;  // mutex_
};

/// The first error of several threads.
class FirstError {
 public:
  bool is_set() const { return set_; }

  void set(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (!set_) status_ = status;
    set_ = true;
  }

  /// May be called once the threads are done.
  const Status& status() const { return status_; }

 private:
  std::atomic<bool> set_ = false;
  std::mutex mutex_;
  Status status_;  // mutex_
};

/// Reads .bin piece by piece and looks at each.
///
/// Pieces go to whichever thread is free; reads instead of a mapping, so that a .bin that is cut
/// short meanwhile is an error and not a signal.
class IdScan {
 public:
  IdScan(const BinPieces& bin, int64_t vocab_size, const ItemScan& scan)
      : bin_(bin),
        vocab_size_(vocab_size),
        scan_(scan),
        size_(dtype_size(scan.dtype)),
        total_bytes_(bin.bytes / size_ * size_),
        report_(scan.progress, bin.path, total_bytes_) {}

  Result<BadItems> run() {
    const int64_t pieces = total_bytes_ / static_cast<int64_t>(bin_.piece_bytes) + 1;
    run_on_workers(scan_.workers, pieces, [this] { read_pieces(); });
    MEG_RETURN_IF_ERROR(error_.status());
    return bad_.all();
  }

 private:
  void read_pieces() {
    const size_t most = std::min(bin_.piece_bytes, static_cast<size_t>(total_bytes_));
    // int64_t is the widest item, and its alignment suits all others.
    std::vector<int64_t> buffer(most / sizeof(int64_t) + 1);
    const auto bytes = std::as_writable_bytes(std::span(buffer));
    while (!error_.is_set()) {
      const int64_t offset = next_.fetch_add(static_cast<int64_t>(bin_.piece_bytes));
      const int64_t left = total_bytes_ - offset;
      if (left <= 0) return;
      const auto piece = bytes.first(std::min(most, static_cast<size_t>(left)));
      const Status status = look_at_piece(offset, piece);
      if (!status.ok()) error_.set(status);
    }
  }

  Status look_at_piece(int64_t offset, std::span<std::byte> piece) {
    MEG_ASSIGN_OR_RETURN(const size_t count, bin_.read_at(offset, piece));
    if (count != piece.size()) {
      return make_error(StatusCode::kIoError,
                        "{}: changed while it was read: byte {}: expected {} bytes, found {}",
                        bin_.path, offset, piece.size(), count);
    }
    BadItems bad = with_integer_type(scan_.dtype, [&]<class T>(T) {
      const std::span items(reinterpret_cast<const T*>(piece.data()), piece.size() / sizeof(T));
      return find_in_piece<T>(items, vocab_size_);
    });
    bad.first += offset / size_;
    bad_.add(bad);
    return report_.add(static_cast<int64_t>(piece.size()));
  }

  const BinPieces& bin_;
  int64_t vocab_size_;
  const ItemScan& scan_;
  int64_t size_;
  int64_t total_bytes_;
  ScanReport report_;
  std::atomic<int64_t> next_ = 0;
  FirstError error_;
  BadItemsGatherer bad_;
};

/// The last item of each document of a block.
class EodScan {
 public:
  EodScan(const io::MappedFile& idx, const IndexArrays& arrays, const BinFile& bin, int64_t eod,
          DType dtype)
      : idx_(idx), arrays_(arrays), bin_(bin), eod_(eod), dtype_(dtype), size_(dtype_size(dtype)) {}

  /// Documents [begin, end).
  Result<BadItems> run(int64_t begin, int64_t end) {
    BadItems bad;
    ItemCursor items(bin_);
    for (int64_t document = begin; document < end; ++document) {
      int64_t offset = kEmpty;
      if (!last_item(document, &offset)) continue;
      const std::byte* last = nullptr;
      if (offset != kEmpty) {
        MEG_ASSIGN_OR_RETURN(last, items.item(offset, size_));
        if (value(last) == eod_) continue;
      }
      if (bad.count++ > 0) continue;
      bad.first = document;
      bad.found = last == nullptr ? "an empty last sequence" : item_text(dtype_, last);
    }
    let_go(begin, end);
    return bad;
  }

 private:
  int64_t value(const std::byte* item) const {
    return with_integer_type(dtype_, [item]<class T>(T) { return int64_t{load_le<T>(item)}; });
  }

  /// Where the last sequence is empty.
  static constexpr int64_t kEmpty = -1;

  /// False for documents that have no sequences or whose entries are damaged; *offset: of the last
  /// item in .bin, which stays kEmpty where there is none.
  bool last_item(int64_t document, int64_t* offset) const {
    const int64_t begin = arrays_.document_indices[document];
    const int64_t end = arrays_.document_indices[document + 1];
    if (begin < 0 || begin >= end || end > arrays_.sequence_lengths.size()) return false;
    const int64_t length = arrays_.sequence_lengths[end - 1];
    const int64_t pointer = arrays_.sequence_pointers[end - 1];
    if (length < 0 || pointer < 0 || pointer > bin_.size()) return false;
    if (length * size_ > bin_.size() - pointer) return false;
    if (length > 0) *offset = pointer + (length - 1) * size_;
    return true;
  }

  void let_go(int64_t begin, int64_t end) const {
    idx_.release(arrays_.document_indices.bytes(begin, end));
    const int64_t sequences = arrays_.sequence_lengths.size();
    const int64_t first = std::clamp<int64_t>(arrays_.document_indices[begin], 0, sequences);
    const int64_t last = std::clamp<int64_t>(arrays_.document_indices[end], first, sequences);
    idx_.release(arrays_.sequence_lengths.bytes(first, last));
    idx_.release(arrays_.sequence_pointers.bytes(first, last));
  }

  const io::MappedFile& idx_;
  const IndexArrays& arrays_;
  const BinFile& bin_;
  int64_t eod_;
  DType dtype_;
  int64_t size_;
};

}  // namespace

Result<BadItems> find_ids_outside(const BinPieces& bin, int64_t vocab_size, const ItemScan& scan) {
  return IdScan(bin, vocab_size, scan).run();
}

Result<BadItems> find_missing_eod(const io::MappedFile& idx, const IndexArrays& arrays,
                                  const BinFile& bin, int64_t eod, const ItemScan& scan) {
  const int64_t documents = arrays.document_indices.size() - 1;
  BadItemsGatherer bad;
  FirstError error;
  ScanReport report(scan.progress, bin.path(), bin.size());
  // This serves the progress alone, as documents differ in length.
  const double bytes_each = static_cast<double>(bin.size()) / static_cast<double>(documents);
  const auto bytes_before = [&](int64_t document) {
    return static_cast<int64_t>(bytes_each * static_cast<double>(document));
  };
  std::atomic<int64_t> next = 0;
  run_on_workers(scan.workers, documents / kDocumentsAtATime + 1, [&] {
    EodScan block(idx, arrays, bin, eod, scan.dtype);
    while (!error.is_set()) {
      const int64_t begin = next.fetch_add(kDocumentsAtATime);
      if (begin >= documents) return;
      const int64_t end = std::min(begin + kDocumentsAtATime, documents);
      const Result<BadItems> found = block.run(begin, end);
      if (!found.has_value()) return error.set(found.error());
      bad.add(*found);
      const Status told = report.add(bytes_before(end) - bytes_before(begin));
      if (!told.ok()) error.set(told);
    }
  });
  MEG_RETURN_IF_ERROR(error.status());
  return bad.all();
}

std::string item_text(DType dtype, const std::byte* item) {
  return with_integer_type(dtype, [item]<class T>(T) { return std::to_string(load_le<T>(item)); });
}

}  // namespace meg::dataset
