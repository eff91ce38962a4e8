#pragma once

#include <fmt/format.h>

#include <string>

#include "libmeg/nn/gpt_options.h"

namespace meg::train {

/// "[ t 1/2, p 1/1 ]": a rank as Megatron's lines about checkpoints count it, from 1.
inline std::string rank_text(const nn::ModelPart& part) {
  return fmt::format("[ t {}/{}, p {}/{} ]", part.tensor_rank + 1,
                     part.sizes.tensor_model_parallel_size, part.pipeline_rank + 1,
                     part.sizes.pipeline_model_parallel_size);
}

}  // namespace meg::train
