#pragma once

#include <c10/core/Device.h>

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// Own: --device {auto,cpu,cuda}, in the group that is open.
void declare_device_flag(Flags& flags, std::string& device);

/// kInvalidArgument where a command line asks for both --fp16 and --bf16.
Status check_precision(const megatron::ArgumentValues& args);

}  // namespace meg::tools
