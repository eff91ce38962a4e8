#pragma once

#include <cstdint>
#include <string>

#include "libmeg/checkpoint/convert/reshard.h"

namespace meg::tools {

/// A line on standard output, at once.
void print(const std::string& line);

/// "mcore (local) names", or the format of what holds no names of Megatron's.
std::string source_text(const checkpoint::MegatronCheckpoint& checkpoint);

/// "tensor 2, pipeline 4, virtual 2, expert 8"
std::string layout_text(int64_t tensor, int64_t pipeline, int64_t virtual_stages,
                        int64_t experts = 1);

/// What of --memory-budget is left for buffers, now that the plan is made.
Result<int64_t> buffer_bytes(const std::string& budget_text);

/// How much was written, and how fast.
void print_written(int64_t bytes, const checkpoint::SaveTimes& times);

}  // namespace meg::tools
