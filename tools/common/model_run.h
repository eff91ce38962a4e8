#pragma once

#include <functional>

#include "libmeg/app/load_model.h"
#include "libmeg/parallel/parallel_state.h"
#include "tools/common/flag_groups/inference_flags.h"

namespace meg::tools {

/// What a program does with a trained model.
struct ModelRun {
  /// Runs on the first rank. The library functions that it calls receive the ranks.
  std::function<Status(app::LoadedModel&, const parallel::ParallelState&)> lead;
  /// Runs on the others, each with its part of the model, until the first one is done.
  std::function<Status(nn::GptModel&, const parallel::ParallelState&)> follow;
};

/// Loads the model on the ranks that a launcher started, or on this one alone, and runs. Returns
/// the exit code, its error said by one of the ranks. Takes the open checkpoint from the flags.
int run_model(InferenceFlags& flags, const ModelRun& run);

}  // namespace meg::tools
