#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/sample_dataset.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// A dataset of packed sequences, whose documents are the samples, and the masks of the tokens that
/// are learned, in PREFIX_loss_mask.
class PackedFiles {
 public:
  /// Looks at the lengths of all sequences. kInvalidArgument where there is no mask, where the two
  /// differ in their sequences, and for a document that takes more than sequence_length positions.
  static Result<std::shared_ptr<const PackedFiles>> open(const std::string& prefix,
                                                         int64_t sequence_length);

  const std::string& prefix() const { return tokens_.prefix(); }

  const dataset::IndexedDataset& tokens() const { return tokens_; }

  const dataset::IndexedDataset& masks() const { return masks_; }

  /// Positions of documents [begin, end) that hold tokens.
  int64_t positions(int64_t begin, int64_t end) const;

 private:
  PackedFiles(dataset::IndexedDataset tokens, dataset::IndexedDataset masks)
      : tokens_(std::move(tokens)), masks_(std::move(masks)) {}

  dataset::IndexedDataset tokens_;
  dataset::IndexedDataset masks_;
};

/// A split of packed sequences, in their order, over and over. A conversation of n tokens takes
/// n - 1 positions: position i has token i, and the loss of token i + 1 where its mask is 1. No
/// position attends to another conversation. Mirrors Megatron-LM
/// megatron/training/datasets/sft_dataset.py: SFTDataset, and the positions of Megatron-Bridge
/// data/packing/gpt_sft.py: GPTSFTPackedDataset.collate_fn.
class PackedDataset : public SampleDataset {
 public:
  /// documents: of the split, at least one. samples: asked for; nullopt: one epoch.
  PackedDataset(std::shared_ptr<const PackedFiles> files, dataset::SequenceRange documents,
                std::optional<int64_t> samples, int64_t sequence_length)
      : files_(std::move(files)),
        documents_(documents),
        size_(samples.value_or(documents.end - documents.begin)),
        sequence_length_(sequence_length) {}

  int64_t size() const override { return size_; }

  int64_t text_length() const override { return sequence_length_ + 1; }

  /// The conversations one after another, as many tokens as there is room for.
  Status text(int64_t sample, int64_t pad, std::span<int64_t> out) const override;
  Status fill(int64_t sample, const GptSampleOptions& options, std::span<int64_t> text,
              const GptSampleFields& fields, std::vector<int64_t>& document_lengths) const override;
  Result<SampleSource> source(int64_t sample) const override;

  std::vector<std::string> prefixes() const override { return {files_->prefix()}; }

 private:
  Result<dataset::SequenceRange> sequences_of(int64_t sample) const;

  std::shared_ptr<const PackedFiles> files_;
  const dataset::SequenceRange documents_;
  const int64_t size_;
  const int64_t sequence_length_;
};

}  // namespace meg::samples
