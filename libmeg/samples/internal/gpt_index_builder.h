#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/numpy/random_state.h"
#include "libmeg/samples/cache_callbacks.h"
#include "libmeg/samples/gpt_index_plan.h"

namespace meg::samples {

/// The three indices between a dataset and its samples, bit for bit as Megatron builds them.
/// One RandomState serves the document index, then the shuffle index.
/// Mirrors Megatron-LM megatron/core/datasets/gpt_dataset.py: _build_document_index,
/// _build_shuffle_index, and helpers.cpp: build_sample_idx. All end with kCancelled where
/// `cancelled` says so.

/// The sequence numbers of `range`, once for each epoch, shuffled. out: plan.documents() entries.
Status build_document_index(const GptIndexPlan& plan, dataset::SequenceRange range,
                            numpy::RandomState& random, std::span<int32_t> out,
                            const CacheCancelled& cancelled = {});

/// Draws what build_document_index draws: what follows can be drawn while that is at work.
Status skip_document_index(const GptIndexPlan& plan, numpy::RandomState& random,
                           const CacheCancelled& cancelled = {});

/// Takes rows of the sample index in order; a row is (place in the document index, token offset).
/// T is int32_t or int64_t, as plan.sample_type says.
template <class T>
using SampleRowSink = std::function<Status(std::span<const T> rows)>;

/// Gives plan.samples + 1 rows to the sink, in pieces of bounded size.
/// lengths: of the sequences from number `first` on, tokens; none negative. documents:
/// plan.documents() entries, all of them among these sequences.
template <class T>
Status build_sample_index(const GptIndexPlan& plan, dataset::LittleEndianArray<int32_t> lengths,
                          std::span<const int32_t> documents, const SampleRowSink<T>& sink,
                          int64_t first = 0);

/// 0 to plan.samples - 1, shuffled. T is uint32_t or int64_t, as plan.shuffle_type says.
template <class T>
Status build_shuffle_index(const GptIndexPlan& plan, numpy::RandomState& random, std::span<T> out,
                           const CacheCancelled& cancelled = {});

}  // namespace meg::samples
