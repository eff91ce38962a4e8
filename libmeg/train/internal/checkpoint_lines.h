#pragma once

#include <optional>

#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/logging/checkpoint_log.h"
#include "libmeg/nn/gpt_options.h"

namespace meg::train {

/// If no form is given: for rank files as 6ef5bdc prints them, for torch_dist as the revisions of
/// core do that have it by default.
inline logging::CheckpointLog checkpoint_log(std::optional<megatron::CheckpointLines> form,
                                             checkpoint::CheckpointFormat format) {
  return logging::CheckpointLog(form.value_or(checkpoint::has_dist_items(format)
                                                  ? megatron::CheckpointLines::kRankOfAll
                                                  : megatron::CheckpointLines::kRelease));
}

inline logging::ModelRank rank_of(const nn::ModelPart& part) {
  return {.tensor_rank = part.tensor_rank,
          .tensor_size = part.sizes.tensor_model_parallel_size,
          .pipeline_rank = part.pipeline_rank,
          .pipeline_size = part.sizes.pipeline_model_parallel_size};
}

}  // namespace meg::train
