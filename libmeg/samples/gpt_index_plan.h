#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"

namespace meg::samples {

/// The inputs that determine the sizes of a split's three indices.
struct GptIndexRequest {
  int64_t sequences = 0;           ///< Of the split.
  int64_t tokens = 0;              ///< Of the split's sequences: one epoch.
  int64_t longest_sequence = 0;    ///< Of the whole dataset, tokens.
  std::optional<int64_t> samples;  ///< Asked for; nullopt: those of one epoch.
  int64_t sequence_length = 0;     ///< Tokens.
  bool extra_token = true;         ///< Each sample reads one token beyond its length.
  bool drop_last_partial = true;   ///< Whether a last, shorter sample is left out.
};

/// The sizes of the document, sample and shuffle index of one split.
/// Mirrors Megatron-LM megatron/core/datasets/gpt_dataset.py:
/// GPTDataset._build_document_sample_shuffle_indices.
struct GptIndexPlan {
  int64_t sequences = 0;
  int64_t sequence_length = 0;
  int64_t extra_token = 1;  ///< 0 or 1
  int64_t epochs = 1;
  int64_t samples = 0;                               ///< Of all epochs, at least those asked for.
  std::optional<int64_t> samples_before_last_epoch;  ///< Given: the last epoch is shuffled apart.
  DType sample_type = DType::kInt32;                 ///< kInt32 or kInt64
  DType shuffle_type = DType::kUint32;               ///< kUInt32 or kInt64

  /// Sizes of the arrays of an index that reblend() has made; nullopt: those that follow.
  struct Stored {
    int64_t documents = 0;
    int64_t rows = 0;
    int64_t first_epoch = 0;  ///< Samples of it, before those of further ones.
  };

  std::optional<Stored> stored = std::nullopt;

  /// Entries of the document index.
  int64_t documents() const { return stored ? stored->documents : epochs * sequences; }

  /// Rows of the sample index that samples may begin in; one more ends the last of them.
  int64_t rows() const { return stored ? stored->rows : samples; }
};

/// kInvalidArgument where a number is out of range: sequence_length below 1, samples below 0, an
/// index of more than 2^31 - 1 epochs or entries that int32 cannot number; also where `tokens` give
/// no sample although one epoch was requested (samples nullopt) is *not* an error: samples is 0.
/// Precondition: tokens > 0.
Result<GptIndexPlan> plan_gpt_index(const GptIndexRequest& request,
                                    const megatron::MegatronVersion& version);

}  // namespace meg::samples
