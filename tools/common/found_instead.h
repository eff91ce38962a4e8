#pragma once

#include <string>

#include "libmeg/base/status.h"

namespace meg::tools {

/// What a program says of a path at which it found no dataset: `error`, or, if a checkpoint is
/// there, that and the programs that read it.
Status no_dataset(const std::string& path, const Status& error);

/// The same where it found no checkpoint and a dataset may be there.
Status no_checkpoint(const std::string& path, const Status& error);

/// The command of `verify` for what is at a path: "checkpoint", "dataset" or "".
std::string verify_command_for(const std::string& path);

}  // namespace meg::tools
