#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/megatron/argument_values.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The flags by which every program opens checkpoints: --param-rules, and the model's shape for
/// checkpoints whose files hold no args (2019, DeepSpeed).
class CheckpointFlags {
 public:
  /// Declares them; this object must live as long as `flags`.
  void declare(Flags& flags);

  /// What the flags say, after Flags::parse. Errors of the rules' file name it.
  Result<checkpoint::OpenCheckpointOptions> options() const;

  /// kInvalidArgument, naming the flag, where one that was given contradicts the checkpoint's args,
  /// which would win without a word.
  Status check_against(const checkpoint::MegatronCheckpoint& checkpoint) const;

 private:
  std::optional<std::string> param_rules_;
  std::vector<megatron::ArgumentRow> shape_rows_;
  megatron::ArgumentValues shape_;
};

}  // namespace meg::tools
