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

  /// The options that result from the flags, after Flags::parse. Errors in the rules file name it.
  Result<checkpoint::OpenCheckpointOptions> options() const;

  /// kInvalidArgument, with the flag's name, if a given flag contradicts the checkpoint's args,
  /// which would otherwise silently take precedence.
  Status check_against(const checkpoint::MegatronCheckpoint& checkpoint) const;

 private:
  std::optional<std::string> param_rules_;
  std::vector<megatron::ArgumentRow> shape_rows_;
  megatron::ArgumentValues shape_;
};

}  // namespace meg::tools
