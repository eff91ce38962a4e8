#include "libmeg/dataset/internal/verify_index.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/text/printable.h"

namespace meg::dataset {

std::string where_it_ends(std::span<const IndexPart> parts, int64_t size) {
  const auto next = std::find_if(parts.begin() + 1, parts.end(),
                                 [size](const IndexPart& part) { return part.begin > size; });
  const IndexPart& part = *std::prev(next);
  if (part.entry_size == 0) return fmt::format("the file ends in {}", part.name);
  return fmt::format("the file ends in entry {} of {}", (size - part.begin) / part.entry_size,
                     part.name);
}

Problem& IndexVerifier::add(Problem problem) {
  report_.problems.push_back(std::move(problem));
  return report_.problems.back();
}

Result<bool> IndexVerifier::run(const VerifyOptions& options) {
  report_.format = index_format(idx_.bytes());
  if (report_.format == IndexFormat::kTntidx) {
    if (!check_tntidx_header()) return false;
    MEG_ASSIGN_OR_RETURN(const bool is_placed, check_tntidx_sizes());
    if (!is_placed) return false;
  } else if (!check_header() || !check_sizes(options.multimodal)) {
    return false;
  }
  check_sequences(options.view);
  if (report_.format == IndexFormat::kTntidx) {
    if (!options.view) check_last_offset();
    check_dim_offsets();
  }
  check_documents();
  return true;
}

/// False where the rest of the file means nothing.
bool IndexVerifier::check_header() {
  const auto size = report_.idx_bytes;
  const auto header = read_index_header(idx_.bytes(), idx_.path());
  if (!header.has_value()) {
    const std::string_view start = idx_.text().substr(0, kIndexMagic.size());
    if (!kIndexMagic.starts_with(start)) {
      add({.check = VerifyCheck::kMagic,
           .file = idx_.path(),
           .byte_offset = 0,
           .expected = text::printable(kIndexMagic),
           .found = text::printable(start)});
      return false;
    }
    constexpr std::array kFields = {
        IndexPart{"the magic", 0, 0}, IndexPart{"the version", kIndexVersionOffset, 0},
        IndexPart{"the dtype", kIndexDtypeOffset, 0},
        IndexPart{"the sequence count", kIndexSequenceCountOffset, 0},
        IndexPart{"the document count", kIndexDocumentIndicesOffset, 0}};
    add({.check = VerifyCheck::kHeader,
         .file = idx_.path(),
         .byte_offset = size,
         .subject = where_it_ends(kFields, size),
         .expected = fmt::format("{} bytes", kIndexHeaderSize),
         .found = fmt::format("{} bytes", size)});
    return false;
  }
  header_ = *header;
  check_version(kIndexVersionOffset, header_.version);
  report_.dtype = index_dtype(header_.dtype_code);
  if (report_.dtype.has_value()) {
    item_size_ = dtype_size(*report_.dtype);
  } else {
    add({.check = VerifyCheck::kDtype,
         .file = idx_.path(),
         .byte_offset = kIndexDtypeOffset,
         .expected = "1 to 8",
         .found = std::to_string(header_.dtype_code)});
  }
  return true;
}

// From the version on a wrong field is noted and the rest is read all the same: one run should name
// all that is wrong, and a damaged byte here does not move the arrays.
void IndexVerifier::check_version(int64_t offset, uint64_t version) {
  report_.version = version;
  if (version == kIndexVersion) return;
  add({.check = VerifyCheck::kVersion,
       .file = idx_.path(),
       .byte_offset = offset,
       .expected = std::to_string(kIndexVersion),
       .found = std::to_string(version)});
}

/// Places the arrays; false where the counts do not say where they are.
bool IndexVerifier::check_sizes(const std::optional<bool>& multimodal) {
  const int64_t size = report_.idx_bytes;
  // Megatron writes a 0 in front of the ends of the documents, so even an empty dataset has one.
  if (header_.document_index_count == 0) {
    explain_counts(add({.check = VerifyCheck::kDocumentCount,
                        .file = idx_.path(),
                        .byte_offset = kIndexDocumentIndicesOffset,
                        .expected = "at least 1",
                        .found = "0"}));
    return false;
  }
  const auto layout = index_layout(header_.sequence_count, header_.document_index_count);
  if (!layout.has_value()) {
    explain_counts(
        add({.check = VerifyCheck::kIdxSize,
             .file = idx_.path(),
             .byte_offset = kIndexSequenceCountOffset,
             .expected = "counts that a file can hold",
             .found = fmt::format("{} sequences, {} document indices", header_.sequence_count,
                                  header_.document_index_count)}));
    return false;
  }
  const auto sequences = static_cast<int64_t>(header_.sequence_count);
  const int64_t with_modes = layout->sequence_modes + sequences;
  // Nothing in the header says whether there is a byte of mode for each sequence. Megatron's reader
  // is told by its caller (multimodal); where ours is not, the file's size decides.
  report_.multimodal = multimodal.value_or(sequences > 0 && size == with_modes);
  const int64_t expected = report_.multimodal ? with_modes : layout->sequence_modes;
  if (size != expected) {
    const std::array parts = {IndexPart{"sequence_lengths", layout->sequence_lengths, 4},
                              IndexPart{"sequence_pointers", layout->sequence_pointers, 8},
                              IndexPart{"document_indices", layout->document_indices, 8},
                              IndexPart{"sequence_modes", layout->sequence_modes, 1}};
    auto& problem =
        add({.check = VerifyCheck::kIdxSize,
             .file = idx_.path(),
             .byte_offset = std::min(size, expected),
             .subject = size < expected ? where_it_ends(parts, size) : "",
             .expected = fmt::format("{} bytes for {} sequences and {} document indices", expected,
                                     sequences, header_.document_index_count),
             .found = fmt::format("{} bytes", size)});
    explain_counts(problem);
    // A file that is too long may have its arrays in place and something appended; the document
    // indices say whether it has. One that is too short never has.
    const bool arrays_are_there =
        size > expected &&
        counts_fit(sequences, static_cast<int64_t>(header_.document_index_count), false);
    if (!arrays_are_there) return false;
  }
  place_arrays(index_arrays(idx_.bytes(), *layout), {.lengths = layout->sequence_lengths,
                                                     .pointers = layout->sequence_pointers,
                                                     .documents = layout->document_indices});
  // The same code is float32 or float64, by the revision that wrote the file; the pointers and the
  // size of .bin tell which.
  if (header_.dtype_code == kLegacyFloat64Code &&
      is_legacy_float64(arrays_.sequence_lengths, arrays_.sequence_pointers, report_.bin_bytes)) {
    report_.dtype = DType::kFloat64;
    item_size_ = dtype_size(DType::kFloat64);
  }
  return true;
}

/// Whether the document indices run from 0 to the sequence count where these counts place them, and
/// whether the counts explain the file's size.
bool IndexVerifier::counts_fit(int64_t sequences, int64_t document_indices, bool exactly) const {
  if (sequences < 0 || document_indices < 1) return false;
  const auto layout =
      index_layout(static_cast<uint64_t>(sequences), static_cast<uint64_t>(document_indices));
  const int64_t size = report_.idx_bytes;
  if (!layout.has_value() || layout->sequence_modes > size) return false;
  const int64_t rest = size - layout->sequence_modes;
  if (exactly && rest != 0 && rest != sequences) return false;
  const std::byte* const first = idx_.bytes().data() + layout->document_indices;
  const std::byte* const last = idx_.bytes().data() + layout->sequence_modes - 8;
  return load_le<int64_t>(first) == 0 && load_le<int64_t>(last) == sequences;
}

/// Says which count would fit, if one of the two would.
///
/// The arrays have no marks of their own: their places follow from the two counts. Where one of
/// them is damaged, the other and the file's size give it back, and the document indices, which
/// begin with 0 and end with the number of sequences, confirm it. 12 or 13 bytes a sequence:
/// without modes or with.
void IndexVerifier::explain_counts(Problem& problem) const {
  const int64_t array_bytes = report_.idx_bytes - kIndexHeaderSize;
  const auto bytes_of = [](uint64_t count, int64_t size) {
    // Stay below 2^60 together, so that a damaged count overflows nothing here.
    return static_cast<int64_t>(std::min<uint64_t>(count, uint64_t{1} << 56)) * size;
  };
  const int64_t without_documents = array_bytes - bytes_of(header_.document_index_count, 8);
  for (const int64_t size : {12, 13}) {
    const int64_t sequences = without_documents / size;
    if (without_documents % size == 0 &&
        counts_fit(sequences, static_cast<int64_t>(header_.document_index_count), true)) {
      problem.likely_cause =
          fmt::format("the sequence count at byte {} is {}, should be {}",
                      kIndexSequenceCountOffset, header_.sequence_count, sequences);
      return;
    }
    const int64_t without_sequences = array_bytes - bytes_of(header_.sequence_count, size);
    if (without_sequences % 8 == 0 &&
        counts_fit(static_cast<int64_t>(header_.sequence_count), without_sequences / 8, true)) {
      problem.likely_cause = fmt::format("the document index count at byte {} is {}, should be {}",
                                         kIndexDocumentIndicesOffset, header_.document_index_count,
                                         without_sequences / 8);
      return;
    }
  }
}

void IndexVerifier::place_arrays(const IndexArrays& arrays, const Storage& storage) {
  arrays_ = arrays;
  storage_ = storage;
  report_.sequence_count = arrays_.sequence_lengths.size();
  report_.document_count = arrays_.document_indices.size() - 1;
}

/// Returns the length as it is in the file, whatever it is.
std::string IndexVerifier::stored_length(int64_t sequence) const {
  const std::byte* const stored = idx_.bytes().data() + storage_.length_at(sequence);
  return storage_.length_bytes == 4 ? std::to_string(load_le<int32_t>(stored))
                                    : std::to_string(load_le<int64_t>(stored));
}

std::string IndexVerifier::stored_pointer(int64_t sequence) const {
  return std::to_string(load_le<int64_t>(idx_.bytes().data() + storage_.pointer_at(sequence)));
}

/// Lengths and pointers in one pass.
void IndexVerifier::check_sequences(bool view) {
  std::vector<int32_t> length_buffer = arrays_.sequence_lengths.piece_buffer();
  std::vector<int64_t> pointer_buffer = arrays_.sequence_pointers.piece_buffer();
  Problem negative{.check = VerifyCheck::kSequenceLengths, .file = idx_.path(), .count = 0};
  for (int64_t first = 0; first < report_.sequence_count;) {
    const auto lengths = arrays_.sequence_lengths.copy(first, length_buffer);
    const auto pointers = arrays_.sequence_pointers.copy(first, pointer_buffer);
    // A loop without a branch, which the compiler vectorizes; the first negative length is looked
    // for only where there is one.
    int64_t below_zero = 0;
    for (const int32_t length : lengths) below_zero += length < 0 ? 1 : 0;
    if (below_zero > 0 && negative.count == 0) {
      const auto at = std::find_if(lengths.begin(), lengths.end(), [](int32_t l) { return l < 0; });
      const int64_t sequence = first + (at - lengths.begin());
      negative.byte_offset = storage_.length_at(sequence);
      negative.subject = fmt::format("sequence {}", sequence);
      negative.index = {sequence};
      negative.expected = storage_.length_bytes == 4
                              ? "at least 0"
                              : fmt::format("0 to {}", std::numeric_limits<int32_t>::max());
      negative.found = stored_length(sequence);
    }
    negative.count += below_zero;
    check_pointers(first, lengths, pointers);
    check_view_pointers(first, lengths, pointers);
    const int64_t end = first + static_cast<int64_t>(lengths.size());
    // An index may be larger than memory. What has been checked is not read again but by single
    // entries.
    idx_.release(arrays_.sequence_lengths.bytes(first, end));
    idx_.release(arrays_.sequence_pointers.bytes(first, end));
    first = end;
  }
  if (negative.count > 0) add(std::move(negative));
  if (view && outside_bin_ > 0) return add_outside_bin();
  if (!view) explain_pointers();
}

/// Counts the sequences that do not lie inside .bin.
void IndexVerifier::check_view_pointers(int64_t first, std::span<const int32_t> lengths,
                                        std::span<const int64_t> pointers) {
  if (item_size_ == 0) return;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t pointer = pointers[i];
    const bool inside = pointer >= 0 && pointer <= report_.bin_bytes && pointer % item_size_ == 0 &&
                        lengths[i] <= (report_.bin_bytes - pointer) / item_size_;
    if (!inside && outside_bin_++ == 0) first_outside_bin_ = first + static_cast<int64_t>(i);
  }
}

void IndexVerifier::add_outside_bin() {
  const int64_t sequence = first_outside_bin_;
  add({.check = VerifyCheck::kSequencePointers,
       .file = idx_.path(),
       .byte_offset = storage_.pointer_at(sequence),
       .subject = fmt::format("sequence {}", sequence),
       .index = {sequence},
       .expected = fmt::format("{} items of {} bytes inside the {} of .bin, at whole items",
                               arrays_.sequence_lengths[sequence], item_size_, report_.bin_bytes),
       .found = stored_pointer(sequence),
       .count = outside_bin_});
}

/// Sums up the lengths of a piece and compares its pointers.
void IndexVerifier::check_pointers(int64_t first, std::span<const int32_t> lengths,
                                   std::span<const int64_t> pointers) {
  const auto size = static_cast<uint64_t>(item_size_);
  uint64_t sum = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    // Compute in unsigned numbers throughout: damaged lengths and pointers may be anything, and
    // wrapping around is defined for them and keeps differences right.
    const uint64_t drift = static_cast<uint64_t>(pointers[i]) - expected_pointer_;
    if (drift != 0 && item_size_ > 0) {
      if (wrong_pointers_++ == 0) {
        first_wrong_pointer_ = first + static_cast<int64_t>(i);
        pointer_drift_ = static_cast<int64_t>(drift);
      }
      drift_is_constant_ = drift_is_constant_ && static_cast<int64_t>(drift) == pointer_drift_;
    }
    const auto length = static_cast<uint64_t>(int64_t{lengths[i]});
    expected_pointer_ += length * size;
    sum += length;
  }
  report_.item_count += static_cast<int64_t>(sum);
}

/// Adds the problem of the pointers. Where all pointers from one on are off by the same, the length
/// before it is to blame, if the size of .bin bears the pointers out.
void IndexVerifier::explain_pointers() {
  if (wrong_pointers_ == 0) return;
  const int64_t sequence = first_wrong_pointer_;
  const auto expected =
      static_cast<int64_t>(static_cast<uint64_t>(arrays_.sequence_pointers[sequence]) -
                           static_cast<uint64_t>(pointer_drift_));
  auto& problem = add({.check = VerifyCheck::kSequencePointers,
                       .file = idx_.path(),
                       .byte_offset = storage_.pointer_at(sequence),
                       .subject = fmt::format("sequence {}", sequence),
                       .index = {sequence},
                       .expected = std::to_string(expected / storage_.pointer_unit),
                       .found = stored_pointer(sequence),
                       .count = wrong_pointers_});
  // Which explanation is right, a wrong length or a wrong pointer: a wrong length moves all
  // pointers after it by the same amount, up to the end of .bin.
  const bool to_the_end =
      drift_is_constant_ && wrong_pointers_ == report_.sequence_count - sequence;
  const uint64_t bin_by_pointers = expected_pointer_ + static_cast<uint64_t>(pointer_drift_);
  if (sequence == 0 || !to_the_end || pointer_drift_ % item_size_ != 0 ||
      bin_by_pointers != static_cast<uint64_t>(report_.bin_bytes)) {
    if (outside_bin_ == 0) {
      problem.likely_cause = "all sequences are inside .bin: if it is a view, check it as one";
    }
    return;
  }
  const int64_t length = arrays_.sequence_lengths[sequence - 1];
  problem.likely_cause =
      fmt::format("the length of sequence {} at byte {} is {}, should be {}", sequence - 1,
                  storage_.length_at(sequence - 1), length, length + pointer_drift_ / item_size_);
}

void IndexVerifier::check_documents() {
  const int64_t sequences = report_.sequence_count;
  const int64_t last = report_.document_count;
  if (last == 0 && sequences > 0) {
    add({.check = VerifyCheck::kDocumentIndices,
         .file = idx_.path(),
         .byte_offset = storage_.documents,
         .subject = "document index 0",
         .index = {0},
         .expected = fmt::format("further ones, up to {}", sequences),
         .found = "no other",
         .likely_cause = "Megatron-LM up to v2.6 merged without document indices: merge the parts "
                         "again"});
    return;
  }
  Problem problem{.check = VerifyCheck::kDocumentIndices, .file = idx_.path(), .count = 0};
  std::vector<int64_t> buffer = arrays_.document_indices.piece_buffer();
  int64_t before = 0;
  for (int64_t first = 0; first <= last;) {
    const auto piece = arrays_.document_indices.copy(first, buffer);
    for (size_t i = 0; i < piece.size(); ++i) {
      const int64_t index = first + static_cast<int64_t>(i);
      const int64_t smallest = index == last ? sequences : before;
      const int64_t largest = index == 0 ? 0 : sequences;
      if (piece[i] >= smallest && piece[i] <= largest) {
        filled_documents_ += piece[i] > before ? 1 : 0;
        before = piece[i];
      } else if (problem.count++ == 0) {
        problem.byte_offset = storage_.documents + 8 * index;
        problem.subject = fmt::format("document index {}", index);
        problem.index = {index};
        problem.expected = smallest == largest ? std::to_string(smallest)
                                               : fmt::format("{} to {}", smallest, largest);
        problem.found = std::to_string(piece[i]);
      }
    }
    const int64_t end = first + static_cast<int64_t>(piece.size());
    idx_.release(arrays_.document_indices.bytes(first, end));
    first = end;
  }
  if (problem.count > 0) add(std::move(problem));
}

}  // namespace meg::dataset
