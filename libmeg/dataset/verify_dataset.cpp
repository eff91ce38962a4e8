#include "libmeg/dataset/verify_dataset.h"

#include <algorithm>
#include <utility>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/dataset_file.h"
#include "libmeg/dataset/internal/verify_index.h"
#include "libmeg/dataset/internal/verify_items.h"
#include "libmeg/dataset/internal/view_files.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {
namespace {

class DatasetVerifier {
 public:
  DatasetVerifier(const std::string& prefix, const VerifyOptions& options) : options_(options) {
    report_.prefix = dataset_prefix(prefix);
  }

  Result<VerifyReport> run() &&;

 private:
  void check_bin_size(const IndexVerifier& index);
  void check_viewed_bin(const ViewOf& view);
  Status check_items(const IndexVerifier& index);
  Result<BadItems> find_ids_outside_vocabulary(const ItemScan& scan) const;
  Status check_vocab_size(const IndexArrays& arrays, const ItemScan& scan);
  Status check_eod(const IndexArrays& arrays, const ItemScan& scan);

  VerifyOptions options_;
  VerifyReport report_;
  io::MappedFile idx_;
  BinFile bin_;
};

Result<VerifyReport> DatasetVerifier::run() && {
  MEG_RETURN_IF_ERROR(check_is_readable(report_.prefix));
  MEG_ASSIGN_OR_RETURN(idx_, map_dataset_file(report_.prefix + ".idx"));
  MEG_ASSIGN_OR_RETURN(bin_, open_bin(report_.prefix, io::MappedFile::Access::kNormal));
  MEG_ASSIGN_OR_RETURN(report_.view, read_view_of(report_.prefix));
  options_.view = options_.view || report_.view;
  report_.idx_bytes = static_cast<int64_t>(idx_.size());
  report_.bin_bytes = bin_.size();
  IndexVerifier index(idx_, report_);
  MEG_ASSIGN_OR_RETURN(const bool has_arrays, index.run(options_));
  // Else nothing says where items are or how wide.
  if (has_arrays && index.item_size() > 0) {
    // A view names only some ranges of a .bin that belongs to another dataset.
    if (report_.view) {
      check_viewed_bin(*report_.view);
    } else if (!options_.view) {
      check_bin_size(index);
    }
    MEG_RETURN_IF_ERROR(check_items(index));
  }
  return std::move(report_);
}

void DatasetVerifier::check_viewed_bin(const ViewOf& view) {
  const auto change = change_of(view, bin_);
  if (!change) return;
  report_.problems.push_back(
      {.check = VerifyCheck::kBinSize,
       .file = bin_.path(),
       .byte_offset = std::min(report_.bin_bytes, view.bytes),
       .expected = change->expected,
       .found = change->found,
       .likely_cause =
           "the dataset that this is a view of has been replaced: make the view again"});
}

void DatasetVerifier::check_bin_size(const IndexVerifier& index) {
  const int64_t expected = index.expected_bin_bytes();
  const int64_t found = report_.bin_bytes;
  if (found == expected) return;
  Problem problem{.check = VerifyCheck::kBinSize,
                  .file = bin_.path(),
                  .byte_offset = std::clamp<int64_t>(expected, 0, found),
                  .expected = fmt::format("{} bytes by the lengths", expected),
                  .found = fmt::format("{} bytes", found)};
  const int64_t documents = index.filled_documents();
  // A defect of one revision that many datasets still carry: worth its own sentence, because the
  // numbers alone do not distinguish it from a .bin that was not written to its end.
  if (report_.format == IndexFormat::kMmididx && documents > 0 && expected >= 0 &&
      found - expected == documents * index.item_size()) {
    problem.likely_cause = fmt::format(
        "{} bytes too many are one item for each of the {} documents with sequences: Megatron-LM "
        "of about July 2023 (6ef5bdc) wrote lengths without the end-of-document token with "
        "--append-eod; `dataset_tool repair` mends them",
        found - expected, documents);
  }
  report_.problems.push_back(std::move(problem));
}

Status DatasetVerifier::check_items(const IndexVerifier& index) {
  if (!options_.vocab_size.has_value() && !options_.eod.has_value()) return Status();
  const DType dtype = *report_.dtype;
  if (dtype == DType::kFloat32 || dtype == DType::kFloat64) {
    return make_error(StatusCode::kInvalidArgument, "{}: {} items are not token ids",
                      report_.prefix, dtype_name(dtype));
  }
  const ItemScan scan{.dtype = dtype, .workers = options_.workers, .progress = options_.progress};
  if (options_.vocab_size.has_value()) {
    MEG_RETURN_IF_ERROR(check_vocab_size(index.arrays(), scan));
  }
  return options_.eod.has_value() ? check_eod(index.arrays(), scan) : Status();
}

/// "sequence 5, item 3" for an item of .bin, as far as the pointers are to be believed.
std::string place_of_item(const IndexArrays& arrays, int64_t item, int64_t item_size) {
  const int64_t offset = item * item_size;
  // Do without std::upper_bound: the array is little-endian in the file, without iterators.
  int64_t begin = 0;
  int64_t end = arrays.sequence_pointers.size();
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (arrays.sequence_pointers[middle] <= offset) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  if (begin == 0) return "";
  const int64_t sequence = begin - 1;
  const int64_t pointer = arrays.sequence_pointers[sequence];
  // Pointers that were found wrong may name a sequence that does not reach so far.
  if (pointer < 0 || (offset - pointer) / item_size >= arrays.sequence_lengths[sequence]) return "";
  return fmt::format("sequence {}, item {}", sequence, (offset - pointer) / item_size);
}

Result<BadItems> DatasetVerifier::find_ids_outside_vocabulary(const ItemScan& scan) const {
  constexpr size_t kOfFile = size_t{1} << 20;
  constexpr size_t kOfObject = size_t{8} << 20;
  // Requests that wait for a store keep no processor.
  constexpr int kRequestsAtOnce = 4;
  BinPieces pieces{
      .path = bin_.path(), .bytes = bin_.size(), .piece_bytes = kOfFile, .read_at = {}};
  if (bin_.object() == nullptr) {
    MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file,
                         io::FileDescriptor::open_regular(bin_.path()));
    pieces.read_at = [&file](int64_t offset, std::span<std::byte> into) {
      return file.read_at(offset, into);
    };
    return find_ids_outside(pieces, *options_.vocab_size, scan);
  }
  pieces.piece_bytes = kOfObject;
  pieces.read_at = [this](int64_t offset, std::span<std::byte> into) {
    return bin_.object()->read_at(offset, into, nullptr);
  };
  ItemScan wider = scan;
  wider.workers = std::max(scan.workers, kRequestsAtOnce);
  return find_ids_outside(pieces, *options_.vocab_size, wider);
}

Status DatasetVerifier::check_vocab_size(const IndexArrays& arrays, const ItemScan& scan) {
  MEG_ASSIGN_OR_RETURN(const BadItems bad, find_ids_outside_vocabulary(scan));
  if (bad.count == 0) return Status();
  const int64_t item_size = dtype_size(scan.dtype);
  report_.problems.push_back({.check = VerifyCheck::kVocabSize,
                              .file = bin_.path(),
                              .byte_offset = bad.first * item_size,
                              .subject = place_of_item(arrays, bad.first, item_size),
                              .index = {bad.first},
                              .expected = fmt::format("an id in [0, {})", *options_.vocab_size),
                              .found = bad.found,
                              .count = bad.count});
  return Status();
}

Status DatasetVerifier::check_eod(const IndexArrays& arrays, const ItemScan& scan) {
  MEG_ASSIGN_OR_RETURN(const BadItems bad,
                       find_missing_eod(idx_, arrays, bin_, *options_.eod, scan));
  if (bad.count == 0) return Status();
  const int64_t item_size = dtype_size(scan.dtype);
  const int64_t sequence = arrays.document_indices[bad.first + 1] - 1;
  const int64_t length = arrays.sequence_lengths[sequence];
  const int64_t end = arrays.sequence_pointers[sequence] + length * item_size;
  report_.problems.push_back(
      {.check = VerifyCheck::kEod,
       .file = bin_.path(),
       .byte_offset = length > 0 ? end - item_size : end,
       .subject = fmt::format("document {}, sequence {}", bad.first, sequence),
       .index = {bad.first},
       .expected = std::to_string(*options_.eod),
       .found = bad.found,
       .count = bad.count});
  return Status();
}

}  // namespace

Result<VerifyReport> verify_dataset(const std::string& prefix, const VerifyOptions& options) {
  return DatasetVerifier(prefix, options).run();
}

}  // namespace meg::dataset
