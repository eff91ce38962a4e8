#include "libmeg/checkpoint/convert/internal/dist_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/convert/internal/dist_values.h"
#include "libmeg/checkpoint/convert/internal/model_layers.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"

namespace meg::checkpoint {
namespace {

constexpr const char* kLayerFrequency = "moe_layer_freq";
constexpr const char* kSharedExperts[] = {"decoder.layers.{}.mlp.shared_experts.linear_fc1",
                                          "decoder.layers.{}.mlp.shared_experts.linear_fc2"};

}  // namespace

std::string DistNaming::of_layer(const std::string& spelling, int64_t layer) const {
  if (!is_stacked) return model::with_layer(spelling, layer, family);
  constexpr std::string_view kLayerNumber = ".{}.";
  std::string name = spelling;
  const size_t at = name.find(kLayerNumber);
  if (at != name.npos) name.replace(at, kLayerNumber.size(), ".");
  return name;
}

DistNaming dist_naming(const MegatronCheckpoint& checkpoint, model::NameFamily family) {
  if (family == model::NameFamily::kHybrid) return {family, false};
  const PickleGraph& graph = checkpoint.files()[0].file->graph();
  const std::optional<PickleId> args = checkpoint.args(0);
  const auto frequency = args.has_value() ? find_arg(graph, *args, kLayerFrequency) : std::nullopt;
  // A list counts even where all layers are alike in it.
  const bool is_told = frequency.has_value() && (graph.node(*frequency).kind == PickleKind::kList ||
                                                 graph.as_int(*frequency).value_or(1) > 1);
  std::map<std::string_view, size_t> layers_of_each;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    if (parameter.layer.has_value()) ++layers_of_each[parameter.canonical];
  }
  const size_t all = layers_of(checkpoint).size();
  // Megatron stacks layers under one name only where it takes them for alike, and looks for either
  // form by its own args.
  const bool is_alike = std::all_of(layers_of_each.begin(), layers_of_each.end(),
                                    [&](const auto& one) { return one.second == all; });
  return {family, !is_told && is_alike};
}

Status DistObjects::add_extra_states() {
  std::map<std::pair<std::string, int64_t>, const ExtraState*> known;
  for (const ExtraState& extra : checkpoint_.extra_states()) {
    const std::optional<model::ParameterMatch> match = checkpoint_.table().match(
        extra.layer.has_value() ? model::with_layer(extra.spelling, 0) : extra.spelling);
    if (match.has_value()) known[{match->canonical, extra.layer.value_or(0)}] = &extra;
  }
  const auto add = [&](const std::string& canonical, int64_t layer, const std::string& item) {
    const auto found = known.find({canonical, layer});
    if (found == known.end()) return add_object(item, nullptr, 0);
    const ExtraState& extra = *found->second;
    const int file = checkpoint_.file_index(0, extra.stage);
    return add_object(item, checkpoint_.files()[static_cast<size_t>(file)].file.get(),
                      extra.nodes[0]);
  };
  std::vector<std::string> modules = checkpoint_.table().extra_state_modules(naming_.family);
  modules.insert(modules.end(), std::begin(kSharedExperts), std::end(kSharedExperts));
  for (const std::string& module : modules) {
    const std::string canonical = module + "._extra_state";
    const bool is_in_layer = module.find(".linear_") != module.npos;
    // Outside layers, only hybrid models ask for it.
    if (!is_in_layer && naming_.family == model::NameFamily::kHybrid) {
      MEG_RETURN_IF_ERROR(add(canonical, 0, canonical + "/shard_0_1"));
    }
    if (!is_in_layer) continue;
    // Layers with experts have no dense MLP, and few models have shared experts.
    for (const int64_t layer : layers_with(module)) {
      MEG_RETURN_IF_ERROR(add(canonical, layer, layer_item(canonical, layer, {}, 0)));
    }
  }
  return add_expert_extra_states();
}

std::set<int64_t> DistObjects::layers_with(const std::string& module) const {
  std::set<int64_t> found;
  for (const LogicalParameter& parameter : checkpoint_.parameters()) {
    if (parameter.canonical.starts_with(module + ".")) found.insert(parameter.layer.value_or(0));
  }
  return found;
}

/// The name of a layer's object. place, count: of an expert among those of the layer.
std::string DistObjects::layer_item(const std::string& canonical, int64_t layer,
                                    std::optional<int64_t> place, int64_t count) const {
  std::string offsets, sizes;
  if (naming_.is_stacked) {
    offsets = fmt::to_string(layer);
    sizes = fmt::to_string(checkpoint_.config().num_layers);
  }
  if (place.has_value()) {
    const char* dot = naming_.is_stacked ? "." : "";
    offsets += dot + fmt::to_string(*place);
    sizes += dot + fmt::to_string(count);
  }
  if (offsets.empty()) offsets = "0", sizes = "1";
  return fmt::format("{}/shard_{}_{}", naming_.of_layer(canonical, layer), offsets, sizes);
}

/// None: modules of experts need nothing of it, but readers miss it where it is not there.
Status DistObjects::add_expert_extra_states() {
  const int64_t experts = checkpoint_.config().num_experts.value_or(0);
  for (const int64_t layer : layers_with_experts(checkpoint_)) {
    for (const char* module : {"linear_fc1", "linear_fc2"}) {
      const std::string canonical =
          fmt::format("decoder.layers.{{}}.mlp.experts.experts.{}._extra_state", module);
      for (int64_t expert = 0; expert < experts; ++expert) {
        MEG_RETURN_IF_ERROR(add_object(layer_item(canonical, layer, expert, experts), nullptr, 0));
      }
    }
  }
  return {};
}

Status DistObjects::add_rank_state(const RankFile& rank) {
  const PickleGraph& graph = rank.file->graph();
  // The rank's place in the grid of ranks and the grid's size, which every key of a sharded object
  // has.
  const std::string shard = fmt::format("shard_{}.{}_{}.{}", rank.pipeline_rank, rank.tensor_rank,
                                        checkpoint_.pipeline_model_parallel_size(),
                                        checkpoint_.tensor_model_parallel_size());
  if (const auto states = graph.find(rank.file->root(), "rng_state")) {
    MEG_RETURN_IF_ERROR(add_object("rng_state/" + shard, rank.file.get(), *states));
  } else {
    MEG_RETURN_IF_ERROR(add_old_rng("rng_state/" + shard, *rank.file));
  }
  const auto rerun = graph.find(rank.file->root(), "rerun_state_machine");
  const auto own = rerun.has_value() ? graph.find(*rerun, "sharded") : std::nullopt;
  if (!own.has_value()) return {};
  return add_object("rerun_state_machine_state/" + shard, rank.file.get(), *own);
}

/// Generators of before 2022 lie beside the model; today's stand in a dict, the only one of a
/// list.
Status DistObjects::add_old_rng(const std::string& name, const TorchFile& file) {
  TorchFileContent content;
  std::vector<PickleId> pairs;
  const std::span<const PickleId> found = file.graph().pairs(file.root());
  for (size_t i = 0; i + 1 < found.size(); i += 2) {
    const std::string_view key = file.graph().as_string(found[i]).value_or("");
    if (!is_rng_key(key)) continue;
    MEG_ASSIGN_OR_RETURN(const PickleId value, copy_value(file, found[i + 1], &content));
    pairs.insert(pairs.end(), {content.graph().add_string(std::string(key)), value});
  }
  if (pairs.empty()) return {};
  PickleGraph& graph = content.graph();
  content.root = graph.add_list({graph.add_list({graph.add_dict(std::move(pairs))})});
  return writer_.add_object(name, content);
}

/// A list of the one value, as Megatron wraps it; of None without a file.
Status DistObjects::add_object(const std::string& name, const TorchFile* file, PickleId node) {
  TorchFileContent content;
  PickleId value = 0;
  if (file == nullptr) {
    value = content.graph().add_none();
  } else {
    MEG_ASSIGN_OR_RETURN(value, copy_value(*file, node, &content));
  }
  content.root = content.graph().add_list({value});
  return writer_.add_object(name, content);
}

}  // namespace meg::checkpoint
