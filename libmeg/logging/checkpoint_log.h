#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/megatron/megatron_version.h"

namespace meg::logging {

/// Which rank of a model prints; the first is 0.
struct ModelRank {
  int64_t tensor_rank = 0;
  int64_t tensor_size = 1;
  int64_t pipeline_rank = 0;
  int64_t pipeline_size = 1;
};

/// A revision's lines about saving and loading a checkpoint. Knows no clock and prints nothing.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: save_checkpoint, load_checkpoint.
class CheckpointLog {
 public:
  using Time = std::chrono::system_clock::time_point;

  explicit CheckpointLog(megatron::CheckpointLines form) : form_(form) {}

  /// "saving checkpoint at iteration     100 to FOLDER in torch format"
  std::string saving_line(int64_t iteration, std::string_view folder, std::string_view format,
                          Time now) const;

  /// "  successfully saved checkpoint from iteration     100 to FOLDER [ t 1/2, p 1/1 ]"
  std::string saved_line(int64_t iteration, std::string_view folder, const ModelRank& rank,
                         Time now) const;

  /// " loading distributed checkpoint from FOLDER at iteration 100"; is_release: without iteration.
  std::string loading_line(int64_t iteration, std::string_view folder, bool is_release,
                           bool is_distributed) const;

  /// "  successfully loaded checkpoint from FOLDER [ t 1/2, p 1/1 ] at iteration 100"
  std::string loaded_line(int64_t iteration, std::string_view folder, const ModelRank& rank) const;

 private:
  std::string date(Time now) const;
  std::string rank_text(const ModelRank& rank) const;

  megatron::CheckpointLines form_;
};

}  // namespace meg::logging
