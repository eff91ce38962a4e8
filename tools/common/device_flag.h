#pragma once

#include <c10/core/Device.h>

#include <string>

#include "libmeg/core/result.h"
#include "tools/common/flags.h"

namespace meg::tools {

/// Own: --device {auto,cpu,cuda}, in the group that is open.
void declare_device_flag(Flags& flags, std::string& device);

/// --attention-backend, in the group that is open.
void declare_attention_backend_flag(Flags& flags, std::string& backend);

/// auto: a GPU where there is one. kInvalidArgument for cuda without a GPU.
Result<at::Device> device_of(const std::string& name);

}  // namespace meg::tools
