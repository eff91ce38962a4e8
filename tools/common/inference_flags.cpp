#include "tools/common/inference_flags.h"

#include <limits>

#include "tools/common/device_flag.h"
#include "tools/common/megatron_flags.h"

namespace meg::tools {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kMostReal = std::numeric_limits<double>::max();

void declare_model(Flags& flags, InferenceFlags& inference) {
  flags.group("Checkpoint");
  flags.value("--load", &inference.load, "DIR", "the trained model, of any layout").required();
  flags.toggle("--use-checkpoint-args", &inference.use_checkpoint_args,
               "what flags do not say about the model comes from --load, as it does where no flag "
               "gives a shape");
  declare_model_flags(flags, inference.model);
  flags
      .value("--seq-length", &inference.sequence_length, "N",
             "most tokens at once; else what the model has positions for")
      .range(1, kMost);
  flags
      .value("--layernorm-epsilon", &inference.layernorm_epsilon, "EPS",
             "of norms; else the checkpoint's")
      .old_name("--norm-epsilon")
      .real_range(0, 1);
  flags.value("--rotary-base", &inference.rotary_base, "BASE", "of rotary positions")
      .real_range(1, kMostReal);
  flags.value("--rotary-percent", &inference.rotary_percent, "SHARE", "of a head that turns")
      .real_range(0, 1);
  flags.toggle("--rotary-interleaved", &inference.rotary_interleaved, "neighbours turn together");
}

void declare_computing(Flags& flags, InferenceFlags& inference) {
  flags.group("Computing");
  flags.toggle("--fp16", &inference.fp16, "16-bit floats; else fp32");
  flags.toggle("--bf16", &inference.bf16, "bfloat16");
  declare_device_flag(flags, inference.device);
  declare_attention_backend_flag(flags, inference.attention_backend);
  flags.toggle("--no-bias-gelu-fusion", &inference.no_bias_gelu_fusion,
               "GELU by erf instead of tanh; else as the checkpoint was trained");
  flags.toggle("--attention-softmax-in-fp32", &inference.attention_softmax_in_fp32,
               "also where unfused attention computes in 16 bits");
  flags.toggle("--apply-query-key-layer-scaling", &inference.apply_query_key_layer_scaling,
               "scores divided by the layer's number before the softmax");
  flags
      .value("--micro-batch-size", &inference.micro_batch_size, "N",
             "sequences at once; else as many as pay")
      .old_name("--batch-size")
      .range(1, kMost);
  flags.value("--seed", &inference.seed, "N", "of random numbers").range(0, kMost);
}

}  // namespace

void declare_inference_flags(Flags& flags, InferenceFlags& inference) {
  declare_model(flags, inference);
  flags.group("Tokenizer");
  declare_tokenizer_flags(flags, inference.tokenizer);
  declare_computing(flags, inference);
}

void declare_other_inference_flags(Flags& flags) {
  flags.others(megatron_switches(), Arity::kSwitch);
  flags.others(megatron_values(), Arity::kValue);
  flags.others(megatron_lists(), Arity::kList);
}

Status check_inference_flags(const InferenceFlags& inference) {
  if (inference.fp16 && inference.bf16) {
    return Status(StatusCode::kInvalidArgument, "--fp16 and --bf16: expected one of them at most");
  }
  const ModelFlags& model = inference.model;
  const int given = int{model.num_layers.has_value()} + int{model.hidden_size.has_value()} +
                    int{model.num_attention_heads.has_value()};
  if (inference.use_checkpoint_args || given == 0 || given == 3) return Status();
  return Status(
      StatusCode::kInvalidArgument,
      "--num-layers, --hidden-size, --num-attention-heads: expected all of them, or none "
      "and the checkpoint's (--use-checkpoint-args: the checkpoint's beside those given)");
}

}  // namespace meg::tools
