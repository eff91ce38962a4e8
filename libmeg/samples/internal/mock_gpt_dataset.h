#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/samples/sample_dataset.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// --mock-data: Megatron's made-up documents, the same for everyone.
struct MockGptOptions {
  Split split = Split::kTrain;
  std::optional<int64_t> samples = std::nullopt;
  int64_t sequence_length = 0;
  uint32_t seed = 1234;
  int64_t vocab_size = 0;
  int64_t eod = 0;
  bool extra_token = true;
  bool drop_last_partial = true;
};

/// kUnsupported at revisions without mock data.
/// Mirrors Megatron-LM megatron/core/datasets/gpt_dataset.py: MockGPTDataset.
Result<std::unique_ptr<SampleDataset>> make_mock_gpt_dataset(
    const MockGptOptions& options, const megatron::MegatronVersion& version);

}  // namespace meg::samples
