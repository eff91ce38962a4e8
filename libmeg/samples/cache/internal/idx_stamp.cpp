#include "libmeg/samples/cache/internal/idx_stamp.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <vector>

#include "libmeg/io/digest.h"

namespace meg::samples {
namespace {

/// Bytes of each end of an array that a stamp covers.
constexpr size_t kEnd = 4096;

void add_ends(std::span<const std::byte> bytes, io::Digest* digest) {
  digest->add(bytes.first(std::min(bytes.size(), kEnd)));
  digest->add(bytes.last(std::min(bytes.size(), kEnd)));
}

struct PieceTotals {
  int64_t tokens = 0;
  int32_t longest = 0;
  int32_t shortest = 0;
};

/// A loop without branches, which compilers turn into vector instructions.
PieceTotals total_piece(std::span<const int32_t> lengths) {
  PieceTotals totals;
  for (const int32_t length : lengths) {
    totals.tokens += length;
    totals.longest = std::max(totals.longest, length);
    totals.shortest = std::min(totals.shortest, length);
  }
  return totals;
}

Status negative_length(const dataset::IndexedDataset& dataset, int64_t first) {
  const dataset::LittleEndianArray<int32_t> lengths = dataset.sequence_lengths();
  while (lengths[first] >= 0) ++first;
  return make_error(StatusCode::kCorruption,
                    "{}: sequence {}: length: expected 0 or more, found {}", dataset.idx().path(),
                    first, lengths[first]);
}

}  // namespace

IdxStamp stamp_to_keep(IdxStamp stamp) {
  // File systems count time in steps of up to two seconds.
  constexpr std::chrono::nanoseconds kYoung = std::chrono::seconds(2);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  if (std::chrono::nanoseconds(stamp.mtime_ns) > now - kYoung) stamp.mtime_ns = kNoTime;
  return stamp;
}

Result<IdxStamp> stamp_idx(const dataset::IndexedDataset& dataset) {
  const std::string& path = dataset.idx().path();

  struct stat info {};

  // Takes the time of the path, as the mapping has none. If another file has replaced it, time and
  // digest belong to different files, and the next look finds that.
  if (::stat(path.c_str(), &info) != 0) return errno_error(errno, path);
  io::Digest digest;
  // Both ends of each array: appending, cutting and most rebuilds change one of them. A change in
  // the middle alone is left to the time of modification.
  digest.add(dataset.header());
  add_ends(dataset.sequence_lengths().bytes(), &digest);
  add_ends(dataset.sequence_pointers().bytes(), &digest);
  add_ends(dataset.document_indices().bytes(), &digest);
  add_ends(dataset.sequence_modes().bytes(), &digest);
  return IdxStamp{.size = static_cast<int64_t>(dataset.idx().size()),
                  .mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
                  .xxh3 = digest.hex()};
}

Result<LengthTotals> total_lengths(const dataset::IndexedDataset& dataset,
                                   dataset::SequenceRange range) {
  if (range.begin < 0 || range.begin > range.end || range.end > dataset.sequence_count()) {
    return make_error(StatusCode::kOutOfRange,
                      "{}: sequences [{}, {}): the dataset has {} sequences", dataset.prefix(),
                      range.begin, range.end, dataset.sequence_count());
  }
  LengthTotals totals;
  io::Digest digest;
  const dataset::LittleEndianArray<int32_t> lengths = dataset.sequence_lengths();
  std::vector<int32_t> buffer = lengths.piece_buffer();
  for (int64_t begin = range.begin, end = begin; begin < range.end; begin = end) {
    const auto most = static_cast<size_t>(std::min(std::ssize(buffer), range.end - begin));
    const auto values = lengths.copy(begin, std::span(buffer).first(most));
    end = begin + std::ssize(values);
    const auto bytes = lengths.bytes(begin, end);
    const PieceTotals piece = total_piece(values);
    if (piece.shortest < 0) return negative_length(dataset, begin);
    // A piece of 2^15 lengths of 31 bits cannot overflow by itself.
    if (__builtin_add_overflow(totals.tokens, piece.tokens, &totals.tokens)) {
      return make_error(StatusCode::kCorruption, "{}: sequences [{}, {}): too many tokens",
                        dataset.idx().path(), range.begin, range.end);
    }
    totals.longest = std::max(totals.longest, int64_t{piece.longest});
    digest.add(bytes);
    dataset.idx().release(bytes);
  }
  totals.xxh3 = digest.hex();
  return totals;
}

}  // namespace meg::samples
