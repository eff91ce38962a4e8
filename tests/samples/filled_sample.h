#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/samples/gpt_sample.h"

namespace meg::test {

/// Memory for one sample, and what was filled into it.
struct Filled {
  explicit Filled(size_t length, bool mask = true)
      : tokens(length, -7),
        labels(length, -7),
        loss_mask(length, -7),
        position_ids(length, -7),
        attention_mask(mask ? length * length : 0, 7) {}

  samples::GptSampleFields fields() {
    return {tokens, labels, loss_mask, position_ids, attention_mask};
  }

  std::vector<int64_t> tokens;
  std::vector<int64_t> labels;
  std::vector<float> loss_mask;
  std::vector<int64_t> position_ids;
  std::vector<uint8_t> attention_mask;
};

inline Filled fill(const std::vector<int64_t>& text, samples::GptSampleOptions options) {
  options.sequence_length =
      static_cast<int64_t>(text.size()) - static_cast<int64_t>(options.extra_token);
  Filled filled(static_cast<size_t>(options.sequence_length));
  samples::fill_gpt_sample(text, options, filled.fields());
  return filled;
}

}  // namespace meg::test
