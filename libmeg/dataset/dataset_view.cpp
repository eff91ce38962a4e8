#include "libmeg/dataset/dataset_view.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/dataset/internal/document_runs.h"
#include "libmeg/dataset/internal/libmeg_file.h"
#include "libmeg/dataset/internal/merge_provenance.h"
#include "libmeg/dataset/internal/view_files.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/dataset/provenance_writer.h"
#include "libmeg/io/atomic_file.h"

namespace meg::dataset {
namespace {

namespace fs = std::filesystem;

/// Bytes that are gathered before they are written.
constexpr size_t kGathered = size_t{1} << 20;
/// Documents of a run at most, and between two calls of progress.
constexpr int64_t kRun = 1 << 18;
/// Runs that are handled together: of views, whose entries are looked up in the order of the
/// source, and of copies, whose entries stay in the cache until their items are copied.
constexpr size_t kViewBatch = size_t{1} << 22, kCopyBatch = 4096;

/// Runs between the one that is copied and the one whose items are brought into the cache, and
/// bytes of these.
constexpr size_t kAhead = 16, kPrefetched = 128;

/// Elements of an array of the .idx, written in pieces from a place in the file on.
template <class T>
class ArrayWriter {
 public:
  ArrayWriter(const io::AtomicFile& file, int64_t begin)
      : file_(file), flushed_(begin), gathered_(kGathered) {}

  Status add(T value) {
    if (kGathered - used_ < sizeof(T)) MEG_RETURN_IF_ERROR(flush());
    store_le(gathered_.data() + used_, value);
    used_ += sizeof(T);
    return {};
  }

  /// Little endian. Long ones are not gathered.
  Status add(std::span<const std::byte> elements) {
    if (kGathered - used_ < elements.size()) MEG_RETURN_IF_ERROR(flush());
    if (elements.size() >= kGathered / 8) {
      MEG_RETURN_IF_ERROR(flush());
      return write(elements);
    }
    std::ranges::copy(elements, gathered_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ += elements.size();
    return {};
  }

  Status flush() {
    const size_t count = std::exchange(used_, 0);
    return count == 0 ? Status() : write(std::span(gathered_).first(count));
  }

 private:
  Status write(std::span<const std::byte> bytes) {
    MEG_RETURN_IF_ERROR(file_.write_at(flushed_, bytes));
    flushed_ += std::ssize(bytes);
    return {};
  }

  const io::AtomicFile& file_;
  int64_t flushed_;
  std::vector<std::byte> gathered_;
  size_t used_ = 0;
};

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code absent;
  return fs::equivalent(a, b, absent);
}

class ViewWriter {
 public:
  ViewWriter(std::span<const ViewPart> parts, std::string prefix, const ViewOptions& options)
      : parts_(parts), prefix_(std::move(prefix)), options_(options) {}

  Result<ViewSummary> write() {
    MEG_RETURN_IF_ERROR(check_parts());
    MEG_RETURN_IF_ERROR(count());
    std::vector<std::string> prefixes;
    for (const ViewPart& part : parts_) prefixes.push_back(part.source->prefix());
    MEG_ASSIGN_OR_RETURN(auto tokenizer, common_tokenizer(prefixes, summary_.notes));
    if (options_.copy) {
      MEG_RETURN_IF_ERROR(write_copy(std::move(tokenizer)));
    } else {
      MEG_RETURN_IF_ERROR(write_view(std::move(tokenizer)));
    }
    return summary_;
  }

 private:
  Status check_parts() {
    if (parts_.empty()) return {StatusCode::kInvalidArgument, "expected at least one dataset"};
    MEG_RETURN_IF_ERROR(check_is_path(prefix_));
    const IndexedDataset& first = *parts_.front().source;
    for (const ViewPart& part : parts_) {
      const IndexedDataset& source = *part.source;
      MEG_RETURN_IF_ERROR(check_is_path(source.prefix()));
      if (source.format() != IndexFormat::kMmididx) {
        return make_error(StatusCode::kUnsupported, "{}: expected MMIDIDX, found {}",
                          source.idx().path(), index_format_name(source.format()));
      }
      MEG_RETURN_IF_ERROR(check_output(source.prefix(), prefix_,
                                       options_.copy ? OutputBin::kOwn : OutputBin::kLink));
      if (source.dtype() != first.dtype()) {
        return make_error(StatusCode::kInvalidArgument, "{}: expected dtype {} as in {}, found {}",
                          source.prefix(), dtype_name(first.dtype()), first.prefix(),
                          dtype_name(source.dtype()));
      }
      if (!options_.copy && !is_same_file(first.bin().path(), source.bin().path())) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: expected the tokens of {}, as an .idx points into one .bin, found "
                          "another file",
                          source.bin().path(), first.bin().path());
      }
      if (source.sequence_count() == 0) continue;  // which says nothing of modes
      if (has_sequences_ && source.multimodal() != multimodal_) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: expected sequences {}modes as in the datasets before it",
                          source.prefix(), multimodal_ ? "with " : "without ");
      }
      has_sequences_ = true;
      multimodal_ = source.multimodal();
    }
    return {};
  }

  bool has_own_sequences(const IndexedDataset& source) {
    const auto [found, is_new] = has_own_sequences_.try_emplace(&source);
    if (is_new) found->second = documents_are_sequences(source);
    return found->second;
  }

  /// Calls use() with a part's source and runs of its order, at most `most` at a time, except for
  /// long ones.
  template <class Use>
  Status each_batch(size_t most, const Use& use) {
    for (const ViewPart& part : parts_) {
      const IndexedDataset& source = *part.source;
      const auto documents = source.document_indices();
      std::vector<DocumentRun> runs;
      const auto flush = [&] {
        // The answer costs a look at every document.
        const bool is_known = runs.size() >= kCopyBatch && has_own_sequences(source);
        if (!is_known) {
          for (DocumentRun& run : runs) run.sequences = {documents[run.begin], documents[run.end]};
        }
        const Status status = use(source, runs);
        runs.clear();
        return status;
      };
      const Status taken = part.order([&](int64_t begin, int64_t end) -> Status {
        if (begin < 0 || begin > end || end > source.document_count()) {
          return make_error(StatusCode::kOutOfRange,
                            "{}: expected documents of [0, {}), found [{}, {})", source.prefix(),
                            source.document_count(), begin, end);
        }
        // Long ranges in pieces, so that as little is gathered as of short ones.
        for (int64_t at = begin; at < end; at += kRun) {
          const int64_t last = std::min(at + kRun, end);
          runs.push_back({at, last, {at, last}});
          if (runs.size() >= most || end - begin > kRun) MEG_RETURN_IF_ERROR(flush());
        }
        return {};
      });
      MEG_RETURN_IF_ERROR(taken);
      MEG_RETURN_IF_ERROR(flush());
    }
    return {};
  }

  /// By the ends of runs alone; what is in them is checked where it is written. The system may map
  /// what is between two ends nevertheless, as it maps a file in parts of up to 2 MiB.
  Status count() {
    return each_batch(
        kCopyBatch, [&](const IndexedDataset& source, std::span<const DocumentRun> runs) -> Status {
          for (const DocumentRun& run : runs) {
            const auto& [begin, end, sequences] = run;
            const auto& [first, last] = sequences;
            if (first < 0 || first > last || last > source.sequence_count()) {
              return make_error(
                  StatusCode::kCorruption,
                  "{}: documents [{}, {}): expected sequences of [0, {}), found [{}, {})",
                  source.idx().path(), begin, end, source.sequence_count(), first, last);
            }
            summary_.documents += end - begin;
            summary_.sequences += last - first;
            release_documents(source, run);
          }
          return {};
        });
  }

  Status check_sequences(const IndexedDataset& source, const SequenceRange& range) {
    const auto lengths = source.sequence_lengths();
    const auto pointers = source.sequence_pointers();
    for (int64_t sequence = range.begin; sequence < range.end; ++sequence) {
      MEG_RETURN_IF_ERROR(check_sequence(source, sequence, lengths[sequence], pointers[sequence]));
    }
    return {};
  }

  Status check_sequence(const IndexedDataset& source, int64_t sequence, int64_t length,
                        int64_t pointer) {
    const int64_t size = source.item_size(), bytes = source.bin().size();
    if (length < 0 || pointer < 0 || pointer > bytes || length * size > bytes - pointer) {
      MEG_RETURN_IF_ERROR(source.sequence_length(sequence).status());  // which says what is wrong
    }
    summary_.items += length;
    return {};
  }

  /// Mapped pages count as memory; those of short runs may be used by the next ones.
  static void release_documents(const IndexedDataset& source, const DocumentRun& run) {
    if (run.end - run.begin < kRun) return;
    source.idx().release(source.document_indices().bytes(run.begin, run.end));
  }

  static void release(const IndexedDataset& source, const DocumentRun& run) {
    release_documents(source, run);
    if (run.end - run.begin < kRun) return;
    const auto [first, last] = run.sequences;
    source.idx().release(source.sequence_lengths().bytes(first, last));
    source.idx().release(source.sequence_pointers().bytes(first, last));
  }

  Status report(int64_t documents) {
    if (!options_.progress || documents - reported_ < kRun) return {};
    reported_ = documents;
    if (options_.progress({.documents = documents, .tokens = summary_.items})) return {};
    return {StatusCode::kCancelled, prefix_ + ": cancelled"};
  }

  Status write_idx(const io::AtomicFile& idx) {
    IndexHeader header;
    // As it is in the source, whichever code that has for float64.
    header.dtype_code = std::to_integer<uint8_t>(first().header()[kIndexDtypeOffset]);
    header.sequence_count = static_cast<uint64_t>(summary_.sequences);
    header.document_index_count = static_cast<uint64_t>(summary_.documents) + 1;
    std::array<std::byte, kIndexHeaderSize> stored;
    store_index_header(header, stored);
    MEG_RETURN_IF_ERROR(idx.write_at(0, stored));
    const auto layout = index_layout(header.sequence_count, header.document_index_count);
    if (!layout) {
      return make_error(StatusCode::kOutOfRange, "{}.idx: more than a file can hold", prefix_);
    }
    return write_arrays(idx, *layout);
  }

  /// All arrays in one pass, so that each place of the sources is looked up once.
  Status write_arrays(const io::AtomicFile& idx, const IndexLayout& layout) {
    ArrayWriter<int32_t> lengths(idx, layout.sequence_lengths);
    ArrayWriter<int64_t> pointers(idx, layout.sequence_pointers);
    ArrayWriter<int64_t> documents(idx, layout.document_indices);
    ArrayWriter<int8_t> modes(idx, layout.sequence_modes);
    SingleSequences found;
    int64_t before = 0;  // sequences of the documents so far
    int64_t done = 0;    // documents
    MEG_RETURN_IF_ERROR(documents.add(before));
    const Status taken = each_batch(
        kViewBatch, [&](const IndexedDataset& source, std::span<const DocumentRun> runs) -> Status {
          found.look_up(source, runs);
          for (size_t i = 0; i < runs.size(); ++i) {
            const DocumentRun& run = runs[i];
            const auto& [first, last] = run.sequences;
            if (last - first == 1) {
              const int32_t length = found.lengths()[i];
              const int64_t pointer = found.pointers()[i];
              MEG_RETURN_IF_ERROR(check_sequence(source, first, length, pointer));
              MEG_RETURN_IF_ERROR(lengths.add(length));
              MEG_RETURN_IF_ERROR(pointers.add(pointer));
            } else {
              MEG_RETURN_IF_ERROR(check_sequences(source, run.sequences));
              MEG_RETURN_IF_ERROR(lengths.add(source.sequence_lengths().bytes(first, last)));
              MEG_RETURN_IF_ERROR(pointers.add(source.sequence_pointers().bytes(first, last)));
            }
            if (multimodal_) {
              MEG_RETURN_IF_ERROR(modes.add(source.sequence_modes().bytes(first, last)));
            }
            MEG_RETURN_IF_ERROR(write_documents(source, run, before, documents));
            before += last - first;
            done += run.end - run.begin;
            release(source, run);
          }
          return report(done);
        });
    MEG_RETURN_IF_ERROR(taken);
    for (const Status& status :
         {lengths.flush(), pointers.flush(), documents.flush(), modes.flush()}) {
      MEG_RETURN_IF_ERROR(status);
    }
    return {};
  }

  /// before: sequences of the documents before the run's.
  static Status write_documents(const IndexedDataset& source, const DocumentRun& run,
                                int64_t before, ArrayWriter<int64_t>& writer) {
    const auto documents = source.document_indices();
    const int64_t moved = before - run.sequences.begin;
    int64_t last = run.sequences.begin;
    for (int64_t document = run.begin + 1; document < run.end; ++document) {
      const int64_t at = documents[document];
      if (at < last || at > run.sequences.end) {
        return make_error(StatusCode::kCorruption,
                          "{}: document {}: expected sequences of [{}, {}), found [{}, {})",
                          source.idx().path(), document - 1, run.sequences.begin, run.sequences.end,
                          last, at);
      }
      last = at;
      MEG_RETURN_IF_ERROR(writer.add(at + moved));
    }
    return writer.add(run.sequences.end + moved);
  }

  Status write_view(std::optional<DatasetTokenizer> tokenizer) {
    MEG_ASSIGN_OR_RETURN(const io::FileLock lock, lock_dataset(prefix_));
    MEG_ASSIGN_OR_RETURN(summary_.view, describe_view(first().bin().path(), prefix_));
    MEG_ASSIGN_OR_RETURN(io::AtomicFile idx, io::AtomicFile::create_regular(prefix_ + ".idx"));
    MEG_RETURN_IF_ERROR(write_idx(idx));
    MEG_ASSIGN_OR_RETURN(auto provenance, provenance_of_documents());
    MEG_RETURN_IF_ERROR(publish_view(prefix_, idx, *summary_.view, std::move(tokenizer)));
    return provenance ? provenance->publish() : Status();
  }

  Status write_copy(std::optional<DatasetTokenizer> tokenizer) {
    IndexedDatasetBuilder::Options output{
        .dtype = first().dtype(), .multimodal = multimodal_, .tokenizer = std::move(tokenizer)};
    MEG_ASSIGN_OR_RETURN(IndexedDatasetBuilder builder,
                         IndexedDatasetBuilder::create(prefix_, output));
    const Status taken = each_batch(
        kCopyBatch, [&](const IndexedDataset& source, std::span<const DocumentRun> runs) -> Status {
          for (const DocumentRun& run : runs) prefetch_places(source, run);
          for (size_t i = 0; i < runs.size(); ++i) {
            if (i + kAhead < runs.size()) prefetch_items(source, runs[i + kAhead]);
            MEG_RETURN_IF_ERROR(copy_documents(source, runs[i], builder));
          }
          summary_.items = builder.item_count();
          return report(builder.document_count());
        });
    MEG_RETURN_IF_ERROR(taken);
    MEG_ASSIGN_OR_RETURN(auto provenance, provenance_of_documents());
    MEG_RETURN_IF_ERROR(builder.finish());
    return provenance ? provenance->publish() : Status();
  }

  static Status copy_documents(const IndexedDataset& source, const DocumentRun& run,
                               IndexedDatasetBuilder& builder) {
    const auto modes = source.sequence_modes();
    for (int64_t document = run.begin; document < run.end; ++document) {
      MEG_ASSIGN_OR_RETURN(const SequenceRange range, source.document(document));
      for (int64_t at = range.begin; at < range.end; ++at) {
        MEG_ASSIGN_OR_RETURN(const auto items, source.sequence(at));
        MEG_RETURN_IF_ERROR(builder.add_item(items, modes.empty() ? int8_t{0} : modes[at]));
      }
      MEG_RETURN_IF_ERROR(builder.end_document());
    }
    return {};
  }

  /// The entries of a run's first sequence. count() has checked that it is there.
  static void prefetch_places(const IndexedDataset& source, const DocumentRun& run) {
    const auto [first, last] = run.sequences;
    if (first == last) return;
    __builtin_prefetch(source.sequence_lengths().bytes(first, first + 1).data());
    __builtin_prefetch(source.sequence_pointers().bytes(first, first + 1).data());
  }

  /// The begin of its items: the processor finds out by itself how a long sequence goes on.
  static void prefetch_items(const IndexedDataset& source, const DocumentRun& run) {
    const auto [first, last] = run.sequences;
    if (first == last) return;
    const auto sequence = source.sequence(first);
    if (!sequence.has_value()) return;  // copy_documents() says what is wrong
    const size_t size = std::min(sequence->size(), kPrefetched);
    for (size_t at = 0; at < size; at += 64) __builtin_prefetch(sequence->data() + at);
  }

  /// Complete, to be published after the pair; nullopt where no source has any. The caller holds
  /// the lock.
  Result<std::optional<ProvenanceWriter>> provenance_of_documents() {
    std::optional<ProvenanceWriter> writer;
    std::vector<std::optional<Provenance>> provenances;
    for (const ViewPart& part : parts_) {
      MEG_ASSIGN_OR_RETURN(auto found, Provenance::open_beside(part.source->prefix()));
      provenances.push_back(std::move(found));
    }
    const auto is_there = [](const auto& provenance) { return provenance.has_value(); };
    if (std::ranges::none_of(provenances, is_there)) return writer;
    MEG_ASSIGN_OR_RETURN(writer, ProvenanceWriter::create(prefix_));
    SourceNames sources;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!provenances[i]) {
        summary_.notes.push_back(
            fmt::format("{}: no provenance: the sources of its documents are unknown",
                        parts_[i].source->prefix()));
      }
      MEG_RETURN_IF_ERROR(append_places(parts_[i].order, provenances[i], sources, *writer));
    }
    MEG_RETURN_IF_ERROR(writer->complete(sources.names()));
    return writer;
  }

  static Status append_places(const DocumentOrder& order, const std::optional<Provenance>& from,
                              SourceNames& sources, ProvenanceWriter& writer) {
    const std::vector<uint32_t> numbers = from ? sources.add(*from) : std::vector<uint32_t>();
    std::vector<DocumentPlace> places;
    const Status taken = order([&](int64_t begin, int64_t end) -> Status {
      for (int64_t document = begin; document < end; ++document) {
        DocumentPlace place;
        if (from) {
          MEG_ASSIGN_OR_RETURN(place, numbered_place(*from, document, numbers));
        }
        places.push_back(place);
        if (places.size() < kGathered / sizeof(DocumentPlace)) continue;
        MEG_RETURN_IF_ERROR(writer.append(places));
        places.clear();
      }
      return {};
    });
    MEG_RETURN_IF_ERROR(taken);
    return writer.append(places);
  }

  const IndexedDataset& first() const { return *parts_.front().source; }

  const std::span<const ViewPart> parts_;
  const std::string prefix_;
  const ViewOptions& options_;
  std::map<const IndexedDataset*, bool> has_own_sequences_;
  bool has_sequences_ = false;
  bool multimodal_ = false;
  ViewSummary summary_;
  int64_t reported_ = 0;
};

}  // namespace

Result<std::optional<ViewOf>> read_view_of(const std::string& prefix) {
  MEG_ASSIGN_OR_RETURN(LibmegFile file, read_libmeg_file(dataset_prefix(prefix)));
  return std::move(file.view);
}

Result<ViewSummary> write_dataset_view(std::span<const ViewPart> parts,
                                       const std::string& output_prefix,
                                       const ViewOptions& options) {
  return ViewWriter(parts, dataset_prefix(output_prefix), options).write();
}

Result<ViewSummary> write_dataset_view(const IndexedDataset& source, const DocumentOrder& order,
                                       const std::string& output_prefix,
                                       const ViewOptions& options) {
  const ViewPart part{&source, order};
  return write_dataset_view({&part, 1}, output_prefix, options);
}

bool share_bin(std::span<const std::string> prefixes) {
  return std::ranges::all_of(prefixes, [&](const std::string& prefix) {
    return is_same_file(dataset_prefix(prefix) + ".bin", dataset_prefix(prefixes.front()) + ".bin");
  });
}

}  // namespace meg::dataset
