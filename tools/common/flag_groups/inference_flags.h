#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/app/load_model.h"
#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The options of every program that uses a trained model.
struct InferenceFlags : app::ModelRequest {
  InferenceFlags() { tokenizer = default_tokenizer(); }

  std::optional<int64_t> micro_batch_size;  ///< Sequences at once; unset: a number that is fast.
  int64_t seed = 1234;
  /// The checkpoint, where it is open already; for load_model().
  std::shared_ptr<const checkpoint::MegatronCheckpoint> checkpoint;
  std::string settings;  ///< Flags::settings(), which ranks compare.
};

/// Declares them all, after the program's own. family: of the flags that such a program of Megatron
/// has beside those of training; idle_fields: those of them that make no difference to this one,
/// each with the reason (see ArgumentScope).
void declare_inference_flags(Flags& flags, megatron::ArgumentFamily family,
                             const std::map<std::string_view, std::string_view>& idle_fields,
                             InferenceFlags& inference);

/// Fills the rest from `flags` and args, after Flags::parse. kInvalidArgument for flags that do not
/// go together: wrong usage.
Status finish_inference_flags(const Flags& flags, InferenceFlags& inference);

}  // namespace meg::tools
