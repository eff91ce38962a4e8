#pragma once

#include <cstdint>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::schedule {

/// --lr-decay-style: how the learning rate falls after warmup.
enum class LrDecayStyle : uint8_t { kConstant, kLinear, kCosine, kInverseSquareRoot, kWsd };

/// --lr-wsd-decay-style: how it falls in the last part of WSD (warmup, stable, decay).
enum class LrWsdDecayStyle : uint8_t { kLinear, kCosine, kExponential, kMinusSqrt };

/// --weight-decay-incr-style
enum class WeightDecayIncrStyle : uint8_t { kConstant, kLinear, kCosine };

/// Megatron's words: constant, linear, cosine, inverse-square-root, WSD, exponential, minus_sqrt.
std::string_view style_text(LrDecayStyle style);
std::string_view style_text(LrWsdDecayStyle style);
std::string_view style_text(WeightDecayIncrStyle style);

/// kInvalidArgument for other texts, with the known ones.
Result<LrDecayStyle> parse_lr_decay_style(std::string_view text);
Result<LrWsdDecayStyle> parse_lr_wsd_decay_style(std::string_view text);
Result<WeightDecayIncrStyle> parse_weight_decay_incr_style(std::string_view text);

}  // namespace meg::schedule
