#include "libmeg/checkpoint/dialects/mp_rank/internal/chunk_entries.h"

#include <set>

#include "libmeg/model/expert_names.h"

// The keys of a chunk's model in the order in which Megatron's state_dict has them, for files that
// are written.

namespace meg::checkpoint {
namespace {

/// has_experts: the parameter's layer, which then has the norm before the MLP by itself.
std::string spelled(const model::RankParameter& parameter, int64_t first_layer,
                    model::NameFamily family, const model::ParameterTable& table,
                    bool has_experts) {
  if (!parameter.layer.has_value()) {
    return table.spell(parameter.name, family).value_or(parameter.name);
  }
  const model::ParameterMatch match = table.match(parameter.name).value_or(model::ParameterMatch{});
  const bool is_kept = has_experts && model::is_norm_before_mlp(match.canonical);
  const std::string stem =
      is_kept ? match.canonical : table.spell(match.canonical, family).value_or(parameter.name);
  // Files number layers from 0 in each chunk.
  return model::with_layer(stem, *parameter.layer - first_layer, family);
}

/// Modules of core have an extra state, None in local layers, after their own parameters. Returns
/// false, and adds none, if the module has no parameters.
bool add_extra_state(const std::string& module, std::vector<ChunkEntry>* entries) {
  size_t at = 0;
  for (size_t i = 0; i < entries->size(); ++i) {
    if ((*entries)[i].name.starts_with(module + ".")) at = i + 1;
  }
  if (at == 0) return false;
  entries->insert(entries->begin() + static_cast<std::ptrdiff_t>(at),
                  {.name = module + "._extra_state", .parameter = {}});
  return true;
}

/// The modules of experts with parameters, by their names in files.
std::vector<std::string> expert_modules(std::span<const ChunkEntry> entries) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<std::string> modules;
  for (const ChunkEntry& entry : entries) {
    if (!entry.name.ends_with(kWeight) || !model::parse_expert_name(entry.name)) continue;
    modules.push_back(entry.name.substr(0, entry.name.size() - kWeight.size()));
  }
  return modules;
}

}  // namespace

std::vector<ChunkEntry> chunk_entries(std::span<const model::RankParameter> parameters,
                                      const model::PipelineLayout& layout, int64_t stage,
                                      int64_t chunk, model::NameFamily family,
                                      const model::ParameterTable& table) {
  const int64_t first_layer = layout.first_layer(stage, chunk);
  std::vector<ChunkEntry> entries;
  std::set<int64_t> expert_layers;
  for (const model::RankParameter& parameter : parameters) {
    if (model::parse_expert_name(parameter.name)) expert_layers.insert(*parameter.layer);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].chunk != chunk) continue;
    const bool has_experts = expert_layers.contains(parameters[i].layer.value_or(-1));
    entries.push_back(
        {.name = spelled(parameters[i], first_layer, family, table, has_experts), .parameter = i});
  }
  if (!model::is_mcore(family)) return entries;
  for (const std::string& module : table.extra_state_modules(family)) {
    if (module.find("{}") == std::string::npos) {
      // Modules outside layers that have an extra state follow the layers, on the last stage: a
      // tied output layer without parameters, too.
      if (layout.is_last(stage, chunk) && !add_extra_state(module, &entries)) {
        entries.push_back({.name = module + "._extra_state", .parameter = {}});
      }
      continue;
    }
    for (int64_t layer = 0; layer < layout.layers(stage, chunk); ++layer) {
      // With experts a layer has no dense MLP's.
      add_extra_state(model::with_layer(module, layer, family), &entries);
    }
  }
  for (const std::string& module : expert_modules(entries)) add_extra_state(module, &entries);
  return entries;
}

}  // namespace meg::checkpoint
