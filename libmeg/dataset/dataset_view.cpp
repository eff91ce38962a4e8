#include "libmeg/dataset/dataset_view.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/dataset/internal/libmeg_file.h"
#include "libmeg/dataset/internal/view_files.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/dataset/provenance_writer.h"
#include "libmeg/io/atomic_file.h"

namespace meg::dataset {
namespace {

namespace fs = std::filesystem;

/// Bytes that are gathered before they are written.
constexpr size_t kGathered = size_t{1} << 20;
/// Documents of a part at most, and between two calls of progress.
constexpr int64_t kPart = 1 << 16;
/// Parts whose places are looked up together.
constexpr size_t kBatch = 4096;

/// Elements of an array of the .idx, written in pieces.
template <class T>
class ArrayWriter {
 public:
  explicit ArrayWriter(const io::AtomicFile& file) : file_(file) { bytes_.reserve(kGathered); }

  Status add(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store_le(bytes_.data() + at, value);
    return bytes_.size() < kGathered ? Status() : flush();
  }

  /// Little endian.
  Status add(std::span<const std::byte> elements) {
    bytes_.insert(bytes_.end(), elements.begin(), elements.end());
    return bytes_.size() < kGathered ? Status() : flush();
  }

  Status flush() {
    const Status status = file_.write(bytes_);
    bytes_.clear();
    return status;
  }

 private:
  const io::AtomicFile& file_;
  std::vector<std::byte> bytes_;
};

/// Documents of an order, and their sequences.
struct Part {
  int64_t begin = 0, end = 0;
  SequenceRange sequences;
};

class ViewWriter {
 public:
  ViewWriter(const IndexedDataset& source, const DocumentOrder& order, std::string prefix,
             const ViewOptions& options)
      : source_(source), order_(order), prefix_(std::move(prefix)), options_(options) {}

  Result<ViewSummary> write() {
    MEG_RETURN_IF_ERROR(check_output());
    MEG_RETURN_IF_ERROR(count());
    MEG_ASSIGN_OR_RETURN(auto tokenizer, read_dataset_tokenizer(source_.prefix()));
    if (options_.copy) {
      MEG_RETURN_IF_ERROR(write_copy(std::move(tokenizer)));
    } else {
      MEG_RETURN_IF_ERROR(write_view(std::move(tokenizer)));
    }
    return summary_;
  }

 private:
  Status check_output() const {
    if (source_.format() != IndexFormat::kMmididx) {
      return make_error(StatusCode::kUnsupported, "{}: expected MMIDIDX, found {}",
                        source_.idx().path(), index_format_name(source_.format()));
    }
    for (const std::string& prefix : {source_.prefix(), prefix_}) {
      MEG_RETURN_IF_ERROR(check_is_path(prefix));
    }
    std::error_code absent;
    if (fs::equivalent(source_.prefix() + ".idx", prefix_ + ".idx", absent)) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected another dataset than the source as output", prefix_);
    }
    if (!options_.copy) return check_place_of_link(prefix_);
    // Writing through the link would replace the source.
    const std::string bin = prefix_ + ".bin";
    if (!fs::equivalent(source_.bin().path(), bin, absent)) return {};
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected another file than the source's, found a link to it", bin);
  }

  /// Calls use() with the parts of the order, some thousand at a time: their places in the arrays
  /// are then looked up at once, so that the memory's latency is waited for once for many.
  template <class Use>
  Status each_batch(const Use& use) const {
    const auto documents = source_.document_indices();
    std::vector<Part> parts;
    const auto flush = [&] {
      for (Part& part : parts) part.sequences.begin = documents[part.begin];
      for (Part& part : parts) part.sequences.end = documents[part.end];
      const Status status = use(parts);
      parts.clear();
      return status;
    };
    const Status status = order_([&](int64_t begin, int64_t end) -> Status {
      if (begin < 0 || begin > end || end > source_.document_count()) {
        return make_error(StatusCode::kOutOfRange,
                          "{}: expected documents of [0, {}), found [{}, {})", source_.prefix(),
                          source_.document_count(), begin, end);
      }
      // Long ranges in parts, so that as little is gathered as of short ones.
      for (int64_t at = begin; at < end; at += kPart) {
        parts.push_back({at, std::min(at + kPart, end), {}});
        if (parts.size() == kBatch || end - begin > kPart) MEG_RETURN_IF_ERROR(flush());
      }
      return {};
    });
    return status.ok() ? flush() : status;
  }

  /// Checks every document once, so that the passes that follow need not.
  Status count() {
    return each_batch([&](std::span<const Part> parts) -> Status {
      for (const Part& part : parts) {
        MEG_RETURN_IF_ERROR(check_documents(part));
        summary_.documents += part.end - part.begin;
        summary_.sequences += part.sequences.end - part.sequences.begin;
      }
      for (const Part& part : parts) MEG_RETURN_IF_ERROR(check_sequences(part.sequences));
      for (const Part& part : parts) release(part);
      return report(summary_.documents);
    });
  }

  Status check_documents(const Part& part) const {
    const auto documents = source_.document_indices();
    for (int64_t document = part.begin; document < part.end; ++document) {
      const bool is_single = part.end - part.begin == 1;
      const SequenceRange range =
          is_single ? part.sequences : SequenceRange{documents[document], documents[document + 1]};
      if (range.begin >= 0 && range.begin <= range.end && range.end <= source_.sequence_count())
        continue;
      return make_error(
          StatusCode::kCorruption, "{}: document {}: expected sequences of [0, {}), found [{}, {})",
          source_.idx().path(), document, source_.sequence_count(), range.begin, range.end);
    }
    return {};
  }

  Status check_sequences(const SequenceRange& range) {
    const auto lengths = source_.sequence_lengths();
    const auto pointers = source_.sequence_pointers();
    const int64_t size = source_.item_size(), bytes = source_.bin().size();
    for (int64_t sequence = range.begin; sequence < range.end; ++sequence) {
      const int64_t length = lengths[sequence], pointer = pointers[sequence];
      if (length < 0 || pointer < 0 || pointer > bytes || length * size > bytes - pointer) {
        MEG_RETURN_IF_ERROR(
            source_.sequence_length(sequence).status());  // which says what is wrong
      }
      summary_.items += length;
    }
    return {};
  }

  /// Mapped pages count as memory; those of short parts may be used by the next ones.
  void release(const Part& part) const {
    if (part.end - part.begin < kPart) return;
    const auto [first, last] = part.sequences;
    source_.idx().release(source_.document_indices().bytes(part.begin, part.end));
    source_.idx().release(source_.sequence_lengths().bytes(first, last));
    source_.idx().release(source_.sequence_pointers().bytes(first, last));
  }

  Status report(int64_t documents) {
    if (!options_.progress || documents - reported_ < kPart) return {};
    reported_ = documents;
    if (options_.progress({.documents = documents, .tokens = summary_.items})) return {};
    return {StatusCode::kCancelled, prefix_ + ": cancelled"};
  }

  /// The elements of one of the source's arrays of sequences.
  template <class T>
  Status write_array(const io::AtomicFile& idx, const LittleEndianArray<T>& array) const {
    ArrayWriter<T> writer(idx);
    const Status status = each_batch([&](std::span<const Part> parts) -> Status {
      for (const auto& [begin, end, sequences] : parts) {
        if (sequences.end - sequences.begin == 1) {
          MEG_RETURN_IF_ERROR(writer.add(array[sequences.begin]));
          continue;
        }
        const auto elements = array.bytes(sequences.begin, sequences.end);
        MEG_RETURN_IF_ERROR(writer.add(elements));
        if (end - begin == kPart) source_.idx().release(elements);
      }
      return {};
    });
    return status.ok() ? writer.flush() : status;
  }

  Status write_document_indices(const io::AtomicFile& idx) const {
    ArrayWriter<int64_t> writer(idx);
    const auto documents = source_.document_indices();
    int64_t before = 0;  // sequences of the documents so far
    MEG_RETURN_IF_ERROR(writer.add(before));
    const Status status = each_batch([&](std::span<const Part> parts) -> Status {
      for (const auto& [begin, end, sequences] : parts) {
        for (int64_t document = begin + 1; document < end; ++document) {
          MEG_RETURN_IF_ERROR(writer.add(before + documents[document] - sequences.begin));
        }
        before += sequences.end - sequences.begin;
        MEG_RETURN_IF_ERROR(writer.add(before));
      }
      return {};
    });
    return status.ok() ? writer.flush() : status;
  }

  Status write_idx(const io::AtomicFile& idx) const {
    IndexHeader header;
    // As it is in the source, whichever code that has for float64.
    header.dtype_code = std::to_integer<uint8_t>(source_.header()[kIndexDtypeOffset]);
    header.sequence_count = static_cast<uint64_t>(summary_.sequences);
    header.document_index_count = static_cast<uint64_t>(summary_.documents) + 1;
    std::array<std::byte, kIndexHeaderSize> stored;
    store_index_header(header, stored);
    MEG_RETURN_IF_ERROR(idx.write(stored));
    MEG_RETURN_IF_ERROR(write_array(idx, source_.sequence_lengths()));
    MEG_RETURN_IF_ERROR(write_array(idx, source_.sequence_pointers()));
    MEG_RETURN_IF_ERROR(write_document_indices(idx));
    if (!source_.multimodal()) return {};
    return write_array(idx, source_.sequence_modes());
  }

  Status write_view(std::optional<DatasetTokenizer> tokenizer) {
    MEG_ASSIGN_OR_RETURN(const io::FileLock lock, lock_dataset(prefix_));
    MEG_ASSIGN_OR_RETURN(summary_.view, describe_view(source_.bin().path(), prefix_));
    MEG_ASSIGN_OR_RETURN(io::AtomicFile idx, io::AtomicFile::create_regular(prefix_ + ".idx"));
    MEG_RETURN_IF_ERROR(write_idx(idx));
    MEG_ASSIGN_OR_RETURN(auto provenance, provenance_of_documents());
    MEG_RETURN_IF_ERROR(publish_view(prefix_, idx, *summary_.view, std::move(tokenizer)));
    return provenance ? provenance->publish() : Status();
  }

  Status write_copy(std::optional<DatasetTokenizer> tokenizer) {
    IndexedDatasetBuilder::Options output{.dtype = source_.dtype(),
                                          .multimodal = source_.multimodal(),
                                          .tokenizer = std::move(tokenizer)};
    MEG_ASSIGN_OR_RETURN(IndexedDatasetBuilder builder,
                         IndexedDatasetBuilder::create(prefix_, output));
    const auto documents = source_.document_indices();
    const auto modes = source_.sequence_modes();
    reported_ = 0;
    const Status taken = order_([&](int64_t begin, int64_t end) -> Status {
      for (int64_t document = begin; document < end; ++document) {
        for (int64_t at = documents[document]; at < documents[document + 1]; ++at) {
          MEG_ASSIGN_OR_RETURN(const auto items, source_.sequence(at));
          MEG_RETURN_IF_ERROR(builder.add_item(items, modes.empty() ? int8_t{0} : modes[at]));
        }
        MEG_RETURN_IF_ERROR(builder.end_document());
      }
      return report(builder.document_count());
    });
    MEG_RETURN_IF_ERROR(taken);
    MEG_ASSIGN_OR_RETURN(auto provenance, provenance_of_documents());
    MEG_RETURN_IF_ERROR(builder.finish());
    return provenance ? provenance->publish() : Status();
  }

  /// Complete, to be published after the pair; nullopt where the source has none. The caller holds
  /// the lock.
  Result<std::optional<ProvenanceWriter>> provenance_of_documents() const {
    std::optional<ProvenanceWriter> writer;
    MEG_ASSIGN_OR_RETURN(const auto provenance, Provenance::open_beside(source_.prefix()));
    if (!provenance) return writer;
    MEG_ASSIGN_OR_RETURN(writer, ProvenanceWriter::create(prefix_));
    std::vector<DocumentPlace> places;
    const Status taken = order_([&](int64_t begin, int64_t end) -> Status {
      for (int64_t document = begin; document < end; ++document) {
        MEG_ASSIGN_OR_RETURN(const DocumentPlace place, provenance->place(document));
        places.push_back(place);
        if (places.size() < kGathered / sizeof(DocumentPlace)) continue;
        MEG_RETURN_IF_ERROR(writer->append(places));
        places.clear();
      }
      return {};
    });
    MEG_RETURN_IF_ERROR(taken);
    MEG_RETURN_IF_ERROR(writer->append(places));
    std::vector<std::string> sources;
    for (int64_t i = 0; i < provenance->source_count(); ++i) {
      sources.emplace_back(provenance->source(i));
    }
    MEG_RETURN_IF_ERROR(writer->complete(sources));
    return writer;
  }

  const IndexedDataset& source_;
  const DocumentOrder& order_;
  const std::string prefix_;
  const ViewOptions& options_;
  ViewSummary summary_;
  int64_t reported_ = 0;
};

}  // namespace

Result<std::optional<ViewOf>> read_view_of(const std::string& prefix) {
  MEG_ASSIGN_OR_RETURN(LibmegFile file, read_libmeg_file(dataset_prefix(prefix)));
  return std::move(file.view);
}

Result<ViewSummary> write_dataset_view(const IndexedDataset& source, const DocumentOrder& order,
                                       const std::string& output_prefix,
                                       const ViewOptions& options) {
  return ViewWriter(source, order, dataset_prefix(output_prefix), options).write();
}

}  // namespace meg::dataset
