#include "libmeg/samples/cache/internal/cached_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "libmeg/io/digest.h"
#include "libmeg/numpy/npy.h"

namespace meg::samples {
namespace {

struct IndexFiles {
  numpy::NpyFile document_index;
  numpy::NpyFile sample_index;
  numpy::NpyFile shuffle_index;
};

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

Result<numpy::NpyFile> open_array(const std::string& path, std::vector<int64_t> shape) {
  MEG_ASSIGN_OR_RETURN(numpy::NpyFile file, numpy::NpyFile::open(path));
  if (file.shape() == shape) return file;
  return make_error(StatusCode::kCorruption,
                    "{}: shape: expected {} of this data with these options, found {}", path,
                    shape_text(shape), shape_text(file.shape()));
}

Result<GptIndex::Rows> rows_of(const numpy::NpyFile& file) {
  if (file.dtype() == DType::kInt64) {
    MEG_ASSIGN_OR_RETURN(const auto rows, file.values<int64_t>());
    return GptIndex::Rows(rows);
  }
  MEG_ASSIGN_OR_RETURN(const auto rows, file.values<int32_t>());
  return GptIndex::Rows(rows);
}

Result<GptIndex::Shuffle> shuffle_of(const numpy::NpyFile& file, const GptIndexPlan& plan) {
  if (plan.shuffle_type == DType::kInt64) {
    MEG_ASSIGN_OR_RETURN(const auto shuffle, file.values<int64_t>());
    return GptIndex::Shuffle(shuffle);
  }
  MEG_ASSIGN_OR_RETURN(const auto shuffle, file.values<uint32_t>());
  return GptIndex::Shuffle(shuffle);
}

std::string digest_of_ends(const numpy::NpyFile& file) {
  constexpr size_t kEnd = 4096;  // bytes
  const auto bytes = file.file().bytes();
  const uint64_t size = bytes.size();
  io::Digest digest;
  digest.add(std::as_bytes(std::span(&size, 1)));
  digest.add(bytes.first(std::min(bytes.size(), kEnd)));
  digest.add(bytes.last(std::min(bytes.size(), kEnd)));
  return digest.hex();
}

/// Walks along the document index from one of its ends, a bounded way. Row 1 of the sample index
/// follows from the first lengths, the last row from the last ones and from how many tokens all
/// samples use, so an index of other data, another sequence length or another treatment of the last
/// sample shows there, for a few pages read instead of gigabytes.
class EndsCheck {
 public:
  EndsCheck(const GptIndex& index, const GptIndexPlan& plan,
            dataset::LittleEndianArray<int32_t> lengths, dataset::SequenceRange range,
            int64_t tokens)
      : index_(index), plan_(plan), lengths_(lengths), range_(range), tokens_(tokens) {}

  std::optional<std::string> difference();

 private:
  /// Entries that a walk looks at; only the emptiest of sequences need more.
  static constexpr int64_t kMaxEntries = int64_t{1} << 16;

  int64_t last_entry() const { return plan_.documents() - 1; }

  /// Tokens of an entry; 0 where it is none of the split's, which is then kept in difference_.
  int64_t length_at(int64_t entry);

  /// Where the last token of all stands, seen from a row: the start of the row after it.
  SampleStart end_of_all() {
    return {.entry = last_entry(), .offset = length_at(last_entry()) - plan_.extra_token};
  }

  std::optional<SampleStart> second_row();
  std::optional<SampleStart> last_row();
  void compare(int64_t row, std::optional<SampleStart> expected);
  void check_shuffle(int64_t sample);

  const GptIndex& index_;
  const GptIndexPlan& plan_;
  const dataset::LittleEndianArray<int32_t> lengths_;
  const dataset::SequenceRange range_;
  const int64_t tokens_;
  std::optional<std::string> difference_;
};

std::optional<std::string> EndsCheck::difference() {
  compare(0, SampleStart{});
  if (plan_.samples > 0) {
    compare(1, second_row());
    compare(plan_.samples, last_row());
    check_shuffle(0);
    check_shuffle(plan_.samples - 1);
  }
  return difference_;
}

int64_t EndsCheck::length_at(int64_t entry) {
  const int64_t sequence = index_.documents()[static_cast<size_t>(entry)];
  if (sequence >= range_.begin && sequence < range_.end) return lengths_[sequence];
  difference_ = fmt::format("document index: entry {}: expected a sequence in [{}, {}), found {}",
                            entry, range_.begin, range_.end, sequence);
  return 0;
}

/// The row after the first sample.
std::optional<SampleStart> EndsCheck::second_row() {
  int64_t left = plan_.sequence_length + plan_.extra_token;
  for (int64_t entry = 0; entry <= std::min(last_entry(), kMaxEntries); ++entry) {
    const int64_t length = length_at(entry);
    // This holds also where the sample ends with the entry: Megatron's helper moves to the next one
    // only when a token is missing.
    if (left <= length) return SampleStart{.entry = entry, .offset = left - plan_.extra_token};
    left -= length;
  }
  // Too many empty sequences to decide: nothing is compared.
  if (last_entry() > kMaxEntries) return std::nullopt;
  return end_of_all();
}

/// The row after the last sample.
std::optional<SampleStart> EndsCheck::last_row() {
  int64_t sampled = 0;
  // A last sample that is shorter than the others ends with all tokens.
  const bool is_partial = __builtin_mul_overflow(plan_.samples, plan_.sequence_length, &sampled) ||
                          __builtin_add_overflow(sampled, plan_.extra_token, &sampled) ||
                          sampled > plan_.epochs * tokens_;
  if (is_partial) return end_of_all();
  int64_t behind = plan_.epochs * tokens_ - sampled;
  for (int64_t step = 0; step <= std::min(last_entry(), kMaxEntries); ++step) {
    const int64_t entry = last_entry() - step;
    const int64_t length = length_at(entry);
    if (behind < length) {
      return SampleStart{.entry = entry, .offset = length - behind - plan_.extra_token};
    }
    behind -= length;
  }
  return std::nullopt;
}

void EndsCheck::compare(int64_t row, std::optional<SampleStart> expected) {
  const SampleStart found = index_.start(row);
  if (difference_.has_value() || !expected.has_value() ||
      (found.entry == expected->entry && found.offset == expected->offset)) {
    return;
  }
  difference_ = fmt::format("sample index: row {}: expected ({}, {}), found ({}, {})", row,
                            expected->entry, expected->offset, found.entry, found.offset);
}

void EndsCheck::check_shuffle(int64_t sample) {
  const int64_t row = index_.row_of(sample);
  if (difference_.has_value() || (row >= 0 && row < plan_.samples)) return;
  difference_ = fmt::format("shuffle index: entry {}: expected less than {}, found {}", sample,
                            plan_.samples, row);
}

}  // namespace

Result<CachedIndex> open_cached_index(const GptIndexPaths& paths, const GptIndexPlan& plan) {
  auto files = std::make_shared<IndexFiles>();
  MEG_ASSIGN_OR_RETURN(files->document_index, open_array(paths.document_index, {plan.documents()}));
  MEG_ASSIGN_OR_RETURN(files->sample_index, open_array(paths.sample_index, {plan.rows() + 1, 2}));
  MEG_ASSIGN_OR_RETURN(files->shuffle_index, open_array(paths.shuffle_index, {plan.samples}));
  MEG_ASSIGN_OR_RETURN(const auto documents, files->document_index.values<int32_t>());
  MEG_ASSIGN_OR_RETURN(const GptIndex::Rows rows, rows_of(files->sample_index));
  MEG_ASSIGN_OR_RETURN(const GptIndex::Shuffle shuffle, shuffle_of(files->shuffle_index, plan));
  // Digest only sizes and ends: whole digests would read gigabytes at every start of a run.
  const IndexDigests digests{.document_index = digest_of_ends(files->document_index),
                             .sample_index = digest_of_ends(files->sample_index),
                             .shuffle_index = digest_of_ends(files->shuffle_index)};
  return CachedIndex{.index = GptIndex(documents, rows, shuffle, std::move(files)),
                     .digests = digests};
}

std::function<Result<GptIndex>()> reopening(const GptIndexPaths& paths, const GptIndexPlan& plan,
                                            const IndexDigests& digests) {
  return [=]() -> Result<GptIndex> {
    MEG_ASSIGN_OR_RETURN(CachedIndex opened, open_cached_index(paths, plan));
    if (opened.digests == digests) return std::move(opened.index);
    return make_error(StatusCode::kCorruption,
                      "{}: expected the index cache that this run began with, found other files: "
                      "start the run again, without `dataloader_defer_npy_index_mmap`",
                      paths.sample_index);
  };
}

std::optional<std::string> difference_at_ends(const GptIndex& index, const GptIndexPlan& plan,
                                              dataset::LittleEndianArray<int32_t> lengths,
                                              dataset::SequenceRange range, int64_t tokens) {
  return EndsCheck(index, plan, lengths, range, tokens).difference();
}

}  // namespace meg::samples
