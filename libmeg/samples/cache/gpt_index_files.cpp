#include "libmeg/samples/cache/gpt_index_files.h"

#include <algorithm>
#include <future>
#include <latch>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/base/huge_array.h"
#include "libmeg/io/piece_writer.h"
#include "libmeg/numpy/npy.h"
#include "libmeg/samples/internal/gpt_index_builder.h"

// Two threads, each with a generator of its own from the same seed. Megatron draws the document
// index's shuffle first and the shuffle index's after it, from one generator. The second thread
// draws the first shuffle's numbers and throws them away instead of waiting for it: drawing 50
// million takes 0.04 to 0.10 s, the swaps between are what takes long (docs/performance.md, "Index
// caches beside megatron-core").

namespace meg::samples {
namespace {

/// A .npy file in the making. Neither copied nor moved: the writer borrows the file.
class NpyOutput {
 public:
  explicit NpyOutput(const CacheCancelled& cancelled) : cancelled_(cancelled) {}

  Status create(const std::string& path, DType dtype, std::span<const int64_t> shape) {
    MEG_ASSIGN_OR_RETURN(file, io::AtomicFile::create_under_lock(path));
    MEG_ASSIGN_OR_RETURN(const std::string header, numpy::npy_header(dtype, shape));
    return writer_.append(std::as_bytes(std::span(header)));
  }

  /// Writes in pieces, so that the device is at work while the rest is handed over.
  template <class T>
  Status append(std::span<const T> values) {
    constexpr size_t kPiece = size_t{1} << 20;
    for (; values.size() > kPiece; values = values.subspan(kPiece)) {
      MEG_RETURN_IF_ERROR(append_piece(std::as_bytes(values.first(kPiece))));
    }
    return append_piece(std::as_bytes(values));
  }

  Status flush() { return writer_.flush(); }

  io::AtomicFile file;

 private:
  Status append_piece(std::span<const std::byte> bytes) {
    MEG_RETURN_IF_ERROR(check_cancelled(cancelled_, file.path()));
    return writer_.append(bytes);
  }

  const CacheCancelled& cancelled_;
  io::PieceWriter writer_{file, 0};
};

struct Outputs {
  explicit Outputs(const CacheCancelled& cancelled)
      : document(cancelled), sample(cancelled), shuffle(cancelled) {}

  NpyOutput document;
  NpyOutput sample;
  NpyOutput shuffle;
};

Status create(const GptIndexPlan& plan, const GptIndexPaths& paths, Outputs& out) {
  MEG_RETURN_IF_ERROR(
      out.document.create(paths.document_index, DType::kInt32, {{plan.documents()}}));
  MEG_RETURN_IF_ERROR(
      out.sample.create(paths.sample_index, plan.sample_type, {{plan.samples + 1, 2}}));
  return out.shuffle.create(paths.shuffle_index, plan.shuffle_type, {{plan.samples}});
}

/// What is read at random must lie in huge pages, and no length across two cache lines: in the
/// mapped .idx, whose header has 34 bytes, walking through them took 2.3 times as long. The file's
/// pages are given back on the way.
HugeArray<int32_t> copied_lengths(const dataset::IndexedDataset& dataset,
                                  dataset::SequenceRange range) {
  constexpr size_t kPiece = size_t{1} << 20;
  HugeArray<int32_t> lengths(static_cast<size_t>(range.end - range.begin));
  const dataset::LittleEndianArray<int32_t> all = dataset.sequence_lengths();
  int64_t begin = range.begin;
  for (auto rest = lengths.values(); !rest.empty();) {
    const auto piece = all.copy(begin, rest.first(std::min(kPiece, rest.size())));
    const int64_t end = begin + static_cast<int64_t>(piece.size());
    dataset.idx().release(all.bytes(begin, end));
    rest = rest.subspan(piece.size());
    begin = end;
  }
  return lengths;
}

template <class T>
Status write_sample_index(const GptIndexPlan& plan, std::span<const int32_t> lengths, int64_t first,
                          std::span<const int32_t> documents, NpyOutput& out) {
  const dataset::LittleEndianArray<int32_t> array(std::as_bytes(lengths));
  const SampleRowSink<T> sink = [&out](std::span<const T> rows) { return out.append(rows); };
  MEG_RETURN_IF_ERROR(build_sample_index<T>(plan, array, documents, sink, first));
  return out.flush();
}

template <class T>
Status write_shuffle_index(const GptIndexPlan& plan, numpy::RandomState& random, NpyOutput& out,
                           const CacheCancelled& cancelled) {
  HugeArray<T> shuffle(static_cast<size_t>(plan.samples));
  MEG_RETURN_IF_ERROR(build_shuffle_index<T>(plan, random, shuffle.values(), cancelled));
  MEG_RETURN_IF_ERROR(out.append(std::as_const(shuffle).values()));
  return out.flush();
}

/// Counts a latch down at the end of a scope, so that nobody waits forever where it ends early.
class CountDown {
 public:
  explicit CountDown(std::latch& latch) : latch_(latch) {}

  CountDown(const CountDown&) = delete;
  CountDown& operator=(const CountDown&) = delete;

  ~CountDown() { latch_.count_down(); }

 private:
  std::latch& latch_;
};

/// The document and the sample index on this thread; on another one the shuffle index, which needs
/// only the random numbers that follow, and the writing of the document index.
Status write_indices(const GptIndexPlan& plan, const dataset::IndexedDataset& dataset,
                     dataset::SequenceRange range, uint32_t seed, Outputs& out,
                     const CacheCancelled& cancelled) {
  const HugeArray<int32_t> lengths = copied_lengths(dataset, range);
  HugeArray<int32_t> documents(static_cast<size_t>(plan.documents()));
  std::latch documents_built(1);
  std::future<Status> other = std::async(std::launch::async, [&]() -> Status {
    numpy::RandomState random(seed);
    MEG_RETURN_IF_ERROR(skip_document_index(plan, random, cancelled));
    const auto write_shuffle = plan.shuffle_type == DType::kUint32 ? write_shuffle_index<uint32_t>
                                                                   : write_shuffle_index<int64_t>;
    MEG_RETURN_IF_ERROR(write_shuffle(plan, random, out.shuffle, cancelled));
    documents_built.wait();
    MEG_RETURN_IF_ERROR(out.document.append(std::as_const(documents).values()));
    return out.document.flush();
  });
  Status built;
  {
    const CountDown count_down(documents_built);
    numpy::RandomState random(seed);
    built = build_document_index(plan, range, random, documents.values(), cancelled);
  }
  const auto write_samples =
      plan.sample_type == DType::kInt32 ? write_sample_index<int32_t> : write_sample_index<int64_t>;
  if (built.ok()) {
    built = write_samples(plan, lengths.values(), range.begin, documents.values(), out.sample);
  }
  // Wait before `documents` goes: the other thread reads it until it ends.
  MEG_RETURN_IF_ERROR(other.get());
  return built;
}

}  // namespace

Result<std::vector<io::AtomicFile>> write_gpt_index_files(const GptIndexPlan& plan,
                                                          const dataset::IndexedDataset& dataset,
                                                          dataset::SequenceRange range,
                                                          uint32_t seed, const GptIndexPaths& paths,
                                                          const CacheCancelled& cancelled) {
  try {
    Outputs out(cancelled);
    MEG_RETURN_IF_ERROR(create(plan, paths, out));
    MEG_RETURN_IF_ERROR(write_indices(plan, dataset, range, seed, out, cancelled));
    std::vector<io::AtomicFile> files;
    for (NpyOutput* output : {&out.document, &out.sample, &out.shuffle}) {
      files.push_back(std::move(output->file));
    }
    return files;
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted,
                      "{}: not enough memory for {} documents and {} samples", paths.document_index,
                      plan.documents(), plan.samples);
  } catch (const std::system_error& error) {
    return make_error(StatusCode::kResourceExhausted, "{}: cannot start a thread: {}",
                      paths.document_index, error.what());
  }
}

}  // namespace meg::samples
