#include "libmeg/samples/gpt_sample.h"

#include <algorithm>
#include <cassert>

#include "libmeg/samples/internal/sample_kernels.h"

namespace meg::samples {
namespace {

/// Tokens, labels and positions without resets, and the loss mask without ends of documents.
void fill_fields(std::span<const int64_t> text, const GptSampleOptions& options,
                 const GptSampleFields& fields) {
  static const FillFields kernel = fill_fields_kernel(best_instruction_set());
  const size_t length = text.size() - 1;
  kernel(text.data(), length, options.pad, fields.tokens.data(), fields.labels.data(),
         fields.loss_mask.data(), fields.position_ids.data());
  if (options.extra_token) return;
  // The text has no token for the last label: it is padding.
  fields.tokens[length] = text[length] == options.pad ? 0 : text[length];
  fields.labels[length] = 0;
  fields.loss_mask[length] = 0.0F;
  fields.position_ids[length] = static_cast<int64_t>(length);
}

/// visit(i, first) for every token i, first being the place after the last end of a document before
/// it: where i's own document begins in the sample.
template <class Visit>
void visit_document_starts(std::span<const int64_t> tokens, int64_t eod, Visit visit) {
  size_t first = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    visit(i, first);
    if (tokens[i] == eod) first = i + 1;
  }
}

void fill_attention_mask(std::span<const int64_t> tokens, const GptSampleOptions& options,
                         std::span<uint8_t> mask) {
  const size_t length = tokens.size();
  const auto fill_row = [&](size_t i, size_t first) {
    uint8_t* const row = mask.data() + i * length;
    // Hidden: documents before this token's own, and all that comes after the token.
    std::fill(row, row + first, uint8_t{1});
    std::fill(row + first, row + i + 1, uint8_t{0});
    std::fill(row + i + 1, row + length, uint8_t{1});
  };
  if (options.reset_attention_mask) {
    visit_document_starts(tokens, options.eod, fill_row);
  } else {
    for (size_t i = 0; i < length; ++i) fill_row(i, 0);
  }
}

}  // namespace

int64_t pad_of_samples(std::optional<int64_t> pad, std::optional<int64_t> eod, bool allow_ambiguous,
                       const megatron::MegatronVersion& version) {
  constexpr int64_t kNone = -1;
  if (!pad.has_value() || version.dataset_pad == megatron::DatasetPad::kNone) return kNone;
  const bool is_left_alone =
      version.dataset_pad == megatron::DatasetPad::kUnambiguous && pad == eod && !allow_ambiguous;
  return is_left_alone ? kNone : *pad;
}

void fill_gpt_sample(std::span<const int64_t> text, const GptSampleOptions& options,
                     const GptSampleFields& fields) {
  assert(text.size() == fields.tokens.size() + (options.extra_token ? 1 : 0));
  if (fields.tokens.empty()) return;
  fill_fields(text, options, fields);
  const auto tokens = text.first(fields.tokens.size());
  if (options.eod_mask_loss) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == options.eod) fields.loss_mask[i] = 0.0F;
    }
  }
  if (options.reset_position_ids) {
    visit_document_starts(tokens, options.eod, [&](size_t i, size_t first) {
      fields.position_ids[i] = static_cast<int64_t>(i - first);
    });
  }
  if (!fields.attention_mask.empty()) fill_attention_mask(tokens, options, fields.attention_mask);
}

void append_document_lengths(std::span<const int64_t> tokens, int64_t eod,
                             std::vector<int64_t>& lengths) {
  visit_document_starts(tokens, eod, [&](size_t i, size_t first) {
    if (i == first) lengths.push_back(0);
    ++lengths.back();
  });
}

}  // namespace meg::samples
