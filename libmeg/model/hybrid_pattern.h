#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::model {

/// A hybrid model whose layers are those of a GPT model: alternating attention and MLP.
struct HybridPattern {
  /// Number of GPT layers of each pipeline segment; one segment if the pattern does not split it.
  std::vector<int64_t> segments;
  bool has_experts = false;

  int64_t num_layers() const;
};

/// --hybrid-layer-pattern, such as "*-*-|*-*-": `*` attention, `-` an MLP, `E` experts, `|` the end
/// of a pipeline segment. kUnsupported for other layers, and if they are not in pairs. Mirrors
/// Megatron-LM megatron/core/models/hybrid/hybrid_layer_allocation.py: parse_hybrid_pattern.
Result<HybridPattern> parse_hybrid_pattern(std::string_view text);

/// The pattern's text.
std::string hybrid_pattern_text(const HybridPattern& pattern);

}  // namespace meg::model
