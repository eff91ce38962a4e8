#include "libmeg/dataset/samples/gpt_sample.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace meg {
namespace {

/// Tokens and labels as they stand in the text, pads too.
void split_text(std::span<const int64_t> text, const GptSampleOptions& options,
                const GptSampleFields& fields) {
  const size_t length = fields.tokens.size();
  std::copy_n(text.begin(), length, fields.tokens.begin());
  std::copy_n(text.begin() + 1, text.size() - 1, fields.labels.begin());
  if (!options.extra_token) fields.labels.back() = options.pad;
}

/// Where each token's document begins in the sample, as far as resets ask for it: `visit(i, first)`
/// for every token i, first being the place after the last end-of-document before it.
template <class Visit>
void visit_document_starts(std::span<const int64_t> tokens, int64_t eod, Visit visit) {
  size_t first = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    visit(i, first);
    if (tokens[i] == eod) first = i + 1;
  }
}

void fill_position_ids(const GptSampleOptions& options, const GptSampleFields& fields) {
  if (!options.reset_position_ids) {
    std::iota(fields.position_ids.begin(), fields.position_ids.end(), int64_t{0});
    return;
  }
  visit_document_starts(fields.tokens, options.eod, [&](size_t i, size_t first) {
    fields.position_ids[i] = static_cast<int64_t>(i - first);
  });
}

void fill_attention_mask(const GptSampleOptions& options, const GptSampleFields& fields) {
  const size_t length = fields.tokens.size();
  const auto fill_row = [&](size_t i, size_t first) {
    uint8_t* const row = fields.attention_mask.data() + i * length;
    std::fill(row, row + first, uint8_t{1});
    std::fill(row + first, row + i + 1, uint8_t{0});
    std::fill(row + i + 1, row + length, uint8_t{1});
  };
  if (options.reset_attention_mask) {
    visit_document_starts(fields.tokens, options.eod, fill_row);
  } else {
    for (size_t i = 0; i < length; ++i) fill_row(i, 0);
  }
}

/// Masks the loss where a label is padding, then makes tokens and labels of the padding 0.
void hide_padding(int64_t pad, const GptSampleFields& fields) {
  for (size_t i = 0; i < fields.tokens.size(); ++i) {
    fields.loss_mask[i] = fields.labels[i] == pad ? 0.0F : fields.loss_mask[i];
    fields.tokens[i] = fields.tokens[i] == pad ? 0 : fields.tokens[i];
    fields.labels[i] = fields.labels[i] == pad ? 0 : fields.labels[i];
  }
}

}  // namespace

void fill_gpt_sample(std::span<const int64_t> text, const GptSampleOptions& options,
                     const GptSampleFields& fields) {
  assert(text.size() == fields.tokens.size() + (options.extra_token ? 1 : 0));
  if (fields.tokens.empty()) return;
  split_text(text, options, fields);
  std::fill(fields.loss_mask.begin(), fields.loss_mask.end(), 1.0F);
  if (options.eod_mask_loss) {
    for (size_t i = 0; i < fields.tokens.size(); ++i) {
      if (fields.tokens[i] == options.eod) fields.loss_mask[i] = 0.0F;
    }
  }
  fill_position_ids(options, fields);
  if (!fields.attention_mask.empty()) fill_attention_mask(options, fields);
  hide_padding(options.pad, fields);
}

}  // namespace meg
