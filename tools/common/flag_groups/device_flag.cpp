#include "tools/common/flag_groups/device_flag.h"

namespace meg::tools {

void declare_device_flag(Flags& flags, std::string& device) {
  flags.value("--device", &device, "DEVICE", "device to compute on; auto: a GPU if there is one")
      .choices({"auto", "cpu", "cuda"});
}

Status check_precision(const megatron::ArgumentValues& args) {
  if (args.field("fp16") != megatron::FieldValue(true) ||
      args.field("bf16") != megatron::FieldValue(true)) {
    return Status();
  }
  return Status(StatusCode::kInvalidArgument, "--fp16 and --bf16: expected one of them at most");
}

}  // namespace meg::tools
