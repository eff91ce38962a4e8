#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/app/load_model.h"
#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "tools/common/flags/flags.h"
#include "tools/common/tokenizer_flags.h"

namespace meg::tools {

/// What every program that uses a trained model is told.
struct InferenceFlags : app::ModelRequest {
  InferenceFlags() { tokenizer = default_tokenizer(); }

  std::optional<int64_t> micro_batch_size;  ///< Sequences at once; else as many as pay.
  int64_t seed = 1234;
};

/// Declares them all, after the program's own. family: of the flags that such a program of Megatron
/// has beside those of training.
void declare_inference_flags(Flags& flags, megatron::ArgumentFamily family,
                             InferenceFlags& inference);

/// Fills the rest from args, after Flags::parse. kInvalidArgument for flags that do not go
/// together: wrong usage.
Status finish_inference_flags(InferenceFlags& inference);

}  // namespace meg::tools
