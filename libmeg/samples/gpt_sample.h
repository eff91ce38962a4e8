#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"

namespace meg::samples {

/// How a text becomes a training sample: flags of Megatron-LM's trainer.
struct GptSampleOptions {
  int64_t sequence_length = 0;  ///< L, tokens
  bool extra_token = true;      ///< The text has L + 1 tokens, else L.
  int64_t eod = 0;              ///< End-of-document token.
  int64_t pad = -1;             ///< From pad_of_samples(); -1: none.
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
};

/// The token that is padding in the samples of a revision, -1 where none is. pad, eod: those of the
/// tokenizer. allow_ambiguous: --allow-ambiguous-pad-tokens. Mirrors Megatron-LM
/// megatron/core/datasets/megatron_dataset.py: MegatronDataset.__init__.
int64_t pad_of_samples(std::optional<int64_t> pad, std::optional<int64_t> eod, bool allow_ambiguous,
                       const megatron::MegatronVersion& version);

/// One sample, in memory of the caller. Each span has L elements; attention_mask L x L or none.
struct GptSampleFields {
  std::span<int64_t> tokens;
  std::span<int64_t> labels;
  std::span<float> loss_mask;
  std::span<int64_t> position_ids;
  std::span<uint8_t> attention_mask;  ///< 1: hidden. Row i is what token i may not look at.
};

/// Fills the fields from a text of L (+ 1) tokens; none of them overlap. A masked position is
/// masked only in this sample (Megatron core 0.6 to 0.14 also masks it in later samples). Mirrors
/// Megatron-LM megatron/core/datasets/gpt_dataset.py: GPTDataset.__getitem__ and
/// _get_ltor_masks_and_position_ids.
void fill_gpt_sample(std::span<const int64_t> text, const GptSampleOptions& options,
                     const GptSampleFields& fields);

/// Appends the numbers of a sample's tokens that belong to one document, which its end-of-document
/// token ends: what a reset attention mask says, without its L x L elements.
void append_document_lengths(std::span<const int64_t> tokens, int64_t eod,
                             std::vector<int64_t>& lengths);

}  // namespace meg::samples
