#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The flags by which every program opens checkpoints: --param-rules, and the model's shape for
/// checkpoints whose files hold no args (2019, DeepSpeed).
class CheckpointFlags {
 public:
  /// Declares them in a group of their own; this object must live as long as `flags`.
  void declare(Flags& flags);

  /// What the flags say, after Flags::parse. Errors of the rules' file name it.
  Result<checkpoint::OpenCheckpointOptions> options() const;

 private:
  std::optional<std::string> param_rules_;
  std::optional<int64_t> num_layers_, hidden_size_, num_attention_heads_;
  std::optional<int64_t> max_position_embeddings_, padded_vocab_size_;
  std::optional<int64_t> make_vocab_size_divisible_by_;
};

}  // namespace meg::tools
