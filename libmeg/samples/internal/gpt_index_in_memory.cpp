#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "libmeg/numpy/random_state.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/internal/gpt_index_builder.h"

// What gpt_index_files.cpp does by way of files, for runs without a cache and for mock data.

namespace meg::samples {
namespace {

struct IndexMemory {
  std::vector<int32_t> documents;
  std::vector<int32_t> narrow_rows;
  std::vector<int64_t> wide_rows;
  std::vector<uint32_t> narrow_shuffle;
  std::vector<int64_t> wide_shuffle;
};

template <class T>
Result<std::span<const T>> build_rows(const GptIndexPlan& plan,
                                      dataset::LittleEndianArray<int32_t> lengths,
                                      std::span<const int32_t> documents, std::vector<T>* rows) {
  rows->reserve(2 * (static_cast<size_t>(plan.samples) + 1));
  const SampleRowSink<T> sink = [rows](std::span<const T> piece) {
    rows->insert(rows->end(), piece.begin(), piece.end());
    return Status();
  };
  MEG_RETURN_IF_ERROR(build_sample_index<T>(plan, lengths, documents, sink));
  return std::span<const T>(*rows);
}

template <class T>
Result<std::span<const T>> build_shuffle(const GptIndexPlan& plan, numpy::RandomState& random,
                                         std::vector<T>* shuffle) {
  shuffle->resize(static_cast<size_t>(plan.samples));
  MEG_RETURN_IF_ERROR(build_shuffle_index<T>(plan, random, *shuffle));
  return std::span<const T>(*shuffle);
}

Status no_memory(const GptIndexPlan& plan) {
  return make_error(StatusCode::kResourceExhausted,
                    "not enough memory for {} documents and {} samples", plan.documents(),
                    plan.samples);
}

Result<GptIndexCache> build(const GptIndexPlan& plan, dataset::LittleEndianArray<int32_t> lengths,
                            dataset::SequenceRange range, uint32_t seed) {
  auto memory = std::make_shared<IndexMemory>();
  // One generator for both shuffles, the document index's first: what it has drawn decides what the
  // shuffle index draws. (gpt_index_files.cpp does the same by two threads.)
  numpy::RandomState random(seed);
  memory->documents.resize(static_cast<size_t>(plan.documents()));
  MEG_RETURN_IF_ERROR(build_document_index(plan, range, random, memory->documents));
  GptIndex::Rows rows;
  if (plan.sample_type == DType::kInt32) {
    MEG_ASSIGN_OR_RETURN(
        rows, build_rows<int32_t>(plan, lengths, memory->documents, &memory->narrow_rows));
  } else {
    MEG_ASSIGN_OR_RETURN(rows,
                         build_rows<int64_t>(plan, lengths, memory->documents, &memory->wide_rows));
  }
  GptIndex::Shuffle shuffle;
  if (plan.shuffle_type == DType::kUint32) {
    MEG_ASSIGN_OR_RETURN(shuffle, build_shuffle<uint32_t>(plan, random, &memory->narrow_shuffle));
  } else {
    MEG_ASSIGN_OR_RETURN(shuffle, build_shuffle<int64_t>(plan, random, &memory->wide_shuffle));
  }
  // The views stay valid when the pointer moves: what they view lies behind it.
  const std::span<const int32_t> documents = memory->documents;
  return GptIndexCache{.index = GptIndex(documents, rows, shuffle, std::move(memory)),
                       .plan = plan,
                       .outcome = CacheOutcome::kBuilt,
                       .reason = {},
                       .files = {}};
}

}  // namespace

Result<GptIndexCache> build_gpt_index_in_memory(const GptIndexPlan& plan,
                                                dataset::LittleEndianArray<int32_t> lengths,
                                                dataset::SequenceRange range, uint32_t seed) {
  try {
    return build(plan, lengths, range, seed);
  } catch (const std::bad_alloc&) {
    return no_memory(plan);
    // What a vector says to a size that no memory could have.
  } catch (const std::length_error&) {
    return no_memory(plan);
  }
}

}  // namespace meg::samples
