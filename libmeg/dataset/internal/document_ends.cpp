#include "libmeg/dataset/internal/document_ends.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "libmeg/base/thread_pool.h"

namespace meg::dataset {
namespace {

/// Bytes of .bin that a thread reads before the others are waited for, and at a time: what is read
/// at a time stays in the processor's cache.
constexpr int64_t kStretch = int64_t{8} << 20;
constexpr int64_t kRead = int64_t{256} << 10;

/// Ends in items, which begin with item `first`. Most blocks have none, and a loop without branches
/// tells so, of which the compiler makes vector instructions.
template <class T>
void find_ends(std::span<const T> items, T eod, int64_t first, std::vector<int64_t>& ends) {
  constexpr size_t kBlock = 64;
  for (size_t begin = 0; begin < items.size(); begin += kBlock) {
    const auto block = items.subspan(begin, std::min(kBlock, items.size() - begin));
    T differs_everywhere = 1;
    for (const T item : block) differs_everywhere &= static_cast<T>(item != eod);
    if (differs_everywhere != 0) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i] == eod) ends.push_back(first + static_cast<int64_t>(begin + i) + 1);
    }
  }
}

template <class T>
class EndFinder {
 public:
  EndFinder(const io::FileDescriptor& bin, int64_t eod, int64_t bytes)
      : bin_(bin), eod_(static_cast<T>(eod)), bytes_(bytes) {}

  /// One thread's.
  struct Stretch {
    std::vector<T> buffer = std::vector<T>(kRead / sizeof(T));
    std::vector<int64_t> ends = {};
    Status status = {};
  };

  void run(int64_t begin, Stretch& stretch) const {
    stretch.ends.clear();
    for (int64_t at = begin; at < std::min(begin + kStretch, bytes_); at += kRead) {
      const int64_t size = std::min(kRead, bytes_ - at);
      const auto items = std::span(stretch.buffer).first(static_cast<size_t>(size) / sizeof(T));
      stretch.status =
          bin_.read_exactly_at(static_cast<uint64_t>(at), std::as_writable_bytes(items));
      if (!stretch.status.ok()) return;
      find_ends<T>(items, eod_, at / static_cast<int64_t>(sizeof(T)), stretch.ends);
    }
  }

 private:
  const io::FileDescriptor& bin_;
  T eod_;
  int64_t bytes_;
};

template <class T>
Status find_all(const io::FileDescriptor& bin, int64_t bytes, int64_t eod, int workers,
                const ProgressCallback& progress, const std::function<Status(int64_t)>& take) {
  const EndFinder<T> finder(bin, eod, bytes);
  ThreadPool pool(workers);
  std::vector<typename EndFinder<T>::Stretch> stretches(static_cast<size_t>(workers));
  Progress so_far{.total_bytes = bytes};
  for (int64_t begin = 0; begin < bytes; begin = so_far.bytes) {
    for (size_t i = 0; i < stretches.size(); ++i) {
      const int64_t at = begin + static_cast<int64_t>(i) * kStretch;
      pool.submit([&finder, &stretch = stretches[i], at] { finder.run(at, stretch); });
    }
    pool.wait();
    for (const auto& stretch : stretches) {
      MEG_RETURN_IF_ERROR(stretch.status);
      for (const int64_t end : stretch.ends) MEG_RETURN_IF_ERROR(take(end));
      so_far.documents += std::ssize(stretch.ends);
    }
    so_far.bytes = std::min(bytes, begin + std::ssize(stretches) * kStretch);
    if (progress && !progress(so_far)) return {StatusCode::kCancelled, bin.path() + ": cancelled"};
  }
  return {};
}

}  // namespace

Result<int64_t> find_document_ends(const io::FileDescriptor& bin, DType dtype, int64_t eod,
                                   int workers, const ProgressCallback& progress,
                                   const std::function<Status(int64_t end)>& take) {
  MEG_ASSIGN_OR_RETURN(const int64_t size, bin.size());
  const int64_t items = size / dtype_size(dtype), bytes = items * dtype_size(dtype);
  const auto find = [&]<class T>(T) {
    return find_all<T>(bin, bytes, eod, workers, progress, take);
  };
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
      MEG_RETURN_IF_ERROR(find(uint8_t()));
      break;
    case DType::kUint16:
    case DType::kInt16:
      MEG_RETURN_IF_ERROR(find(uint16_t()));
      break;
    case DType::kInt32:
      MEG_RETURN_IF_ERROR(find(uint32_t()));
      break;
    default:
      MEG_RETURN_IF_ERROR(find(uint64_t()));
  }
  return items;
}

}  // namespace meg::dataset
