#include "libmeg/checkpoint/convert/internal/dist_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/convert/internal/dist_values.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"

namespace meg::checkpoint {
namespace {

constexpr const char* kSharedExperts[] = {"decoder.layers.{}.mlp.shared_experts.linear_fc1",
                                          "decoder.layers.{}.mlp.shared_experts.linear_fc2"};

}  // namespace

std::set<int64_t> layers_of(const MegatronCheckpoint& checkpoint) {
  std::set<int64_t> found;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    if (parameter.layer.has_value()) found.insert(*parameter.layer);
  }
  return found;
}

std::string saved_layer_name(const std::string& spelling, int64_t layer, model::NameFamily family) {
  if (family == model::NameFamily::kHybrid) return model::with_layer(spelling, layer, family);
  constexpr std::string_view kLayerNumber = ".{}.";
  std::string name = spelling;
  const size_t at = name.find(kLayerNumber);
  if (at != name.npos) name.replace(at, kLayerNumber.size(), ".");
  return name;
}

Status DistObjects::add_extra_states() {
  const std::set<int64_t> layers_of_modules = layers_of(checkpoint_);
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
  std::vector<std::string> modules = checkpoint_.table().extra_state_modules(family_);
  modules.insert(modules.end(), std::begin(kSharedExperts), std::end(kSharedExperts));
  for (const std::string& module : modules) {
    const std::string canonical = module + "._extra_state";
    const bool is_in_layer = module.find(".linear_") != module.npos;
    // Of those beside the layers hybrid models alone ask for it.
    if (!is_in_layer && is_hybrid()) {
      MEG_RETURN_IF_ERROR(add(canonical, 0, canonical + "/shard_0_1"));
    }
    // Dense MLPs are not there beside experts, shared experts in few models.
    if (!is_in_layer || !has_module(module)) continue;
    for (const int64_t layer : layers_of_modules) {
      MEG_RETURN_IF_ERROR(add(canonical, layer, layer_item(canonical, layer, {}, 0)));
    }
  }
  return add_expert_extra_states();
}

bool DistObjects::has_module(const std::string& module) const {
  return std::any_of(checkpoint_.parameters().begin(), checkpoint_.parameters().end(),
                     [&](const LogicalParameter& parameter) {
                       return parameter.canonical.starts_with(module + ".");
                     });
}

/// The name of a layer's object. place, count: of an expert among those of the layer.
std::string DistObjects::layer_item(const std::string& canonical, int64_t layer,
                                    std::optional<int64_t> place, int64_t count) const {
  std::string offsets, sizes;
  if (!is_hybrid()) {
    offsets = fmt::to_string(layer);
    sizes = fmt::to_string(checkpoint_.config().num_layers);
  }
  if (place.has_value()) {
    const char* dot = is_hybrid() ? "" : ".";
    offsets += dot + fmt::to_string(*place);
    sizes += dot + fmt::to_string(count);
  }
  if (offsets.empty()) offsets = "0", sizes = "1";
  return fmt::format("{}/shard_{}_{}", saved_layer_name(canonical, layer, family_), offsets, sizes);
}

/// None: modules of experts need nothing of it, but readers miss it where it is not there.
Status DistObjects::add_expert_extra_states() {
  const int64_t experts = checkpoint_.config().num_experts.value_or(0);
  for (const int64_t layer : layers_of(checkpoint_)) {
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
