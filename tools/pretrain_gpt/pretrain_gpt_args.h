#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/samples/data_run.h"
#include "tools/pretrain_gpt/pretrain_gpt_flags.h"

namespace meg::tools {

/// Megatron's args of a run, as its checkpoints keep them: every argument of the command line, and
/// what follows from them.
checkpoint::TrainingArgs saved_args(const PretrainFlags& run, const samples::DataRun& data,
                                    const model::GptConfig& config, const Vocabulary& vocabulary,
                                    const parallel::ParallelState& ranks);

/// Megatron's list of the arguments.
std::vector<std::string> arguments_lines(const checkpoint::TrainingArgs& args);

}  // namespace meg::tools
