#include "libmeg/samples/cache/internal/idx_stamp.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

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
PieceTotals total_piece(std::span<const std::byte> lengths) {
  PieceTotals totals;
  const size_t count = lengths.size() / sizeof(int32_t);
  for (size_t i = 0; i < count; ++i) {
    const auto length = load_le<int32_t>(lengths.data() + i * sizeof(int32_t));
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

  // Of the path, as the mapping has no time. Where another file has taken its place, time and
  // digest belong to different files, and the next look finds that.
  if (::stat(path.c_str(), &info) != 0) return errno_error(errno, path);
  io::Digest digest;
  // Both ends of each array: appending, cutting and most rebuilds change one of them. A change in
  // the middle alone is left to the time of modification.
  digest.add(dataset.idx().bytes().first(dataset::kIndexHeaderSize));
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
  constexpr int64_t kPiece = int64_t{1} << 20;  // entries
  if (range.begin < 0 || range.begin > range.end || range.end > dataset.sequence_count()) {
    return make_error(StatusCode::kOutOfRange,
                      "{}: sequences [{}, {}): the dataset has {} sequences", dataset.prefix(),
                      range.begin, range.end, dataset.sequence_count());
  }
  LengthTotals totals;
  io::Digest digest;
  for (int64_t begin = range.begin; begin < range.end; begin += kPiece) {
    const int64_t end = std::min(range.end, begin + kPiece);
    const auto bytes = dataset.sequence_lengths().bytes(begin, end);
    const PieceTotals piece = total_piece(bytes);
    if (piece.shortest < 0) return negative_length(dataset, begin);
    // A piece of 2^20 lengths of 31 bits cannot overflow by itself.
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
