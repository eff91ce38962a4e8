#include <fmt/format.h>

#include "libmeg/model/parameter_table.h"

namespace meg::model {

std::string_view name_family_text(NameFamily family) {
  switch (family) {
    case NameFamily::kLegacy:
      return "legacy";
    case NameFamily::kOld:
      return "old";
    case NameFamily::kFlat:
      return "flat";
    case NameFamily::kMcoreLocal:
      return "mcore";
    case NameFamily::kMcoreTransformerEngine:
      return "mcore (Transformer Engine)";
    case NameFamily::kHybrid:
      return "hybrid";
  }
  return "unknown";
}

bool is_mcore(NameFamily family) {
  return family == NameFamily::kMcoreLocal || has_fused_norms(family);
}

bool has_fused_norms(NameFamily family) {
  return family == NameFamily::kMcoreTransformerEngine || family == NameFamily::kHybrid;
}

NameFamily mcore_family(std::string_view transformer_impl) {
  return transformer_impl == "transformer_engine" ? NameFamily::kMcoreTransformerEngine
                                                  : NameFamily::kMcoreLocal;
}

int64_t hybrid_half(std::string_view name) {
  const bool is_mlp = name.find("{}.mlp.") != name.npos || name.find("{}.pre_mlp_") != name.npos;
  return is_mlp ? 1 : 0;
}

std::string with_layer(std::string_view name, int64_t layer, NameFamily family) {
  const size_t at = name.find("{}");
  if (at == std::string_view::npos) return std::string(name);
  if (family == NameFamily::kHybrid) layer = 2 * layer + hybrid_half(name);
  return fmt::format("{}{}{}", name.substr(0, at), layer, name.substr(at + 2));
}

std::vector<std::string> nested_keys(std::string_view flat_name, NameFamily family) {
  std::vector<std::string> keys;
  if (family == NameFamily::kLegacy || family == NameFamily::kOld) {
    // Dicts end at the transformer, whose keys are flat; elsewhere every module is a dict.
    for (size_t dot = flat_name.find('.'); dot != std::string_view::npos;
         dot = flat_name.find('.')) {
      keys.emplace_back(flat_name.substr(0, dot));
      flat_name.remove_prefix(dot + 1);
      if (keys.back() == "encoder" || keys.back() == "transformer") break;
    }
  }
  keys.emplace_back(flat_name);
  return keys;
}

bool has_weight_decay(std::string_view flat_name, size_t dimensions) {
  return dimensions != 1 && !flat_name.ends_with(".bias");
}

}  // namespace meg::model
