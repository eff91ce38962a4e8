#include "libmeg/checkpoint/convert/internal/target_names.h"

#include <algorithm>
#include <tuple>

#include "libmeg/checkpoint/convert/internal/model_layers.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/model/expert_names.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr int kLast = 1 << 30;

}  // namespace

/// Entries of a state dict are sorted by module, layer and position. Where names are kept,
/// positions are those of the source, so that a target lists its entries as the source did. Where
/// they change, they are those of the parameter table, doubled to leave room for extra states
/// between them.
Result<TargetNames> TargetNames::choose(const MegatronCheckpoint& checkpoint,
                                        std::optional<model::NameFamily> family) {
  TargetNames names(checkpoint, family.value_or(checkpoint.family()));
  names.expert_layers_ = layers_with_experts(checkpoint);
  const auto count = static_cast<int64_t>(names.expert_layers_.size());
  if (names.family_ == model::NameFamily::kHybrid && count > 0 &&
      count != checkpoint.config().num_layers) {
    return make_error(
        StatusCode::kUnsupported,
        "{}: expected experts in all {} layers or in none, as hybrid names have them, "
        "found them in {}",
        checkpoint.folder().folder, checkpoint.config().num_layers, count);
  }
  if (names.kept_) {
    names.short_norms_ = checkpoint.norm_spelling_is_short();
    MEG_RETURN_IF_ERROR(names.read_source_order());
  } else {
    // Since args tell legacy models from mcore ones, legacy models have the short words and
    // `_extra_state` keys.
    names.short_norms_ = checkpoint.arg("use_mcore_models").has_value() ||
                         checkpoint.arg("use_legacy_models").has_value();
  }
  return names;
}

Status TargetNames::read_source_order() {
  for (const RankFile& rank : checkpoint_->files()) {
    // All tensor-parallel ranks of a stage have the same entries.
    if (rank.tensor_rank != 0) continue;
    MEG_ASSIGN_OR_RETURN(const RankModel model, read_rank_model(*rank.file, checkpoint_->table()));
    for (const std::vector<RankEntry>& chunk : model.chunks) {
      for (const RankEntry& entry : chunk) {
        source_order_.try_emplace(entry.match.spelling, static_cast<int>(source_order_.size()));
      }
    }
  }
  return Status();
}

int TargetNames::source_position(const std::string& spelling) const {
  const auto found = source_order_.find(spelling);
  return found == source_order_.end() ? kLast : found->second;
}

Result<TargetNames::Placed> TargetNames::place(const LogicalParameter& parameter,
                                               const ChunkContent& content) const {
  Placed placed;
  placed.placement = parameter.layer.has_value() ? model::Placement::kLayer : parameter.placement;
  placed.layer = parameter.layer.value_or(0);
  placed.entry.parameter = &parameter;
  std::optional<std::string> spelling = parameter.spelling;
  const std::optional<model::ExpertName> expert = model::parse_expert_name(parameter.canonical);
  if (expert.has_value()) placed.entry.expert = expert->expert;
  if (kept_) {
    placed.position = source_position(parameter.spelling);
  } else {
    spelling = checkpoint_->table().spell(parameter.canonical, family_, short_norms_);
    // Layers with experts keep this norm apart, and grouped experts are Transformer Engine's.
    const bool is_kept = expert.has_value() || (parameter.layer.has_value() &&
                                                model::is_norm_before_mlp(parameter.canonical) &&
                                                expert_layers_.contains(*parameter.layer));
    if (is_kept && model::has_fused_norms(family_)) {
      spelling = expert.has_value() ? parameter.spelling : parameter.canonical;
    }
    placed.position = 2 * checkpoint_->table().order(parameter.canonical, family_);
  }
  if (!spelling.has_value()) {
    return make_error(StatusCode::kUnsupported, "{}: has no name in the family {}", parameter.name,
                      model::name_family_text(family_));
  }
  placed.entry.name = model::with_layer(*spelling, placed.layer - content.first_layer, family_);
  return placed;
}

TargetNames::Placed TargetNames::place_tied_copy(const ChunkContent& content) const {
  Placed placed;
  placed.placement = model::Placement::kOutput;
  placed.position = kLast;
  placed.entry.parameter = content.tied_embedding;
  placed.entry.name =
      model::is_mcore(family_) ? "output_layer.weight" : "word_embeddings_for_head.weight";
  if (kept_ && checkpoint_->tied_copy() != nullptr) {
    placed.entry.name = checkpoint_->tied_copy()->spelling;
    placed.position = source_position(placed.entry.name);
  } else if (model::is_mcore(family_)) {
    placed.position = -1;  // In front of output_layer._extra_state.
  }
  return placed;
}

/// Some revisions save the same module (rotary tables) with every chunk.
bool TargetNames::is_on_every_chunk(const ExtraState& extra) const {
  const auto states = checkpoint_->extra_states();
  const int64_t chunks = checkpoint_->pipeline_model_parallel_size() *
                         checkpoint_->virtual_pipeline_model_parallel_size();
  const auto found = std::count_if(states.begin(), states.end(), [&](const ExtraState& other) {
    return !other.layer.has_value() && other.spelling == extra.spelling;
  });
  return chunks > 1 && found == chunks;
}

void TargetNames::add_kept_extra_states(const ChunkContent& content,
                                        std::vector<Placed>* placed) const {
  for (const ExtraState& extra : checkpoint_->extra_states()) {
    Placed found;
    found.layer = extra.layer.value_or(0);
    found.position = source_position(extra.spelling);
    found.entry.extra = &extra;
    if (const auto expert = model::parse_expert_name(extra.spelling)) {
      found.entry.expert = expert->expert;
    }
    found.entry.name =
        model::with_layer(extra.spelling, found.layer - content.first_layer, family_);
    if (extra.layer.has_value()) {
      if (!content.holds_layer(*extra.layer)) continue;
    } else {
      const std::optional<model::ParameterMatch> match = checkpoint_->table().match(extra.spelling);
      if (match.has_value()) found.placement = match->placement;
      if (!content.holds(found.placement) && !is_on_every_chunk(extra)) continue;
      const bool known = std::any_of(placed->begin(), placed->end(), [&](const Placed& other) {
        return other.entry.name == found.entry.name;
      });
      if (known) continue;
    }
    placed->push_back(std::move(found));
  }
}

void TargetNames::add_new_extra_states(const ChunkContent& content,
                                       std::vector<Placed>* placed) const {
  if (!model::is_mcore(family_) && !short_norms_) return;
  const size_t parameters = placed->size();
  const auto add = [&](const std::string& module, model::Placement placement, int64_t layer) {
    Placed found;
    found.placement = placement;
    found.layer = layer;
    found.position = -1;
    found.entry.name = model::with_layer(module, layer - content.first_layer, family_);
    bool has_parameter = false;
    for (size_t i = 0; i < parameters; ++i) {
      if (!(*placed)[i].entry.name.starts_with(found.entry.name + ".")) continue;
      found.position = std::max(found.position, (*placed)[i].position + 1);
      has_parameter = true;
    }
    // Inside layers, modules without parameters do not exist: dense MLPs in layers with experts.
    if (!has_parameter && (!model::is_mcore(family_) || placement == model::Placement::kLayer)) {
      return;
    }
    found.entry.name += "._extra_state";
    placed->push_back(std::move(found));
  };
  for (const std::string& canonical : checkpoint_->table().extra_state_modules(family_)) {
    std::string module = canonical;
    if (const auto weight =
            checkpoint_->table().spell(canonical + std::string(kWeight), family_, short_norms_)) {
      module = weight->substr(0, weight->size() - kWeight.size());
    }
    if (module.find("{}") == std::string::npos) {
      const auto match = checkpoint_->table().match(module + std::string(kWeight));
      const model::Placement placement =
          match.has_value() ? match->placement : model::Placement::kOutput;
      if (content.holds(placement)) add(module, placement, content.first_layer);
      continue;
    }
    for (int64_t i = 0; i < content.layer_count; ++i) {
      add(module, model::Placement::kLayer, content.first_layer + i);
    }
  }
}

Result<std::vector<TargetEntry>> TargetNames::entries(const ChunkContent& content) const {
  std::vector<Placed> placed;
  for (const LogicalParameter& parameter : checkpoint_->parameters()) {
    const bool held = parameter.layer.has_value() ? content.holds_layer(*parameter.layer)
                                                  : content.holds(parameter.placement);
    if (!held) continue;
    MEG_ASSIGN_OR_RETURN(Placed found, place(parameter, content));
    placed.push_back(std::move(found));
  }
  if (content.tied_embedding != nullptr) placed.push_back(place_tied_copy(content));
  if (kept_) {
    add_kept_extra_states(content, &placed);
  } else {
    add_new_extra_states(content, &placed);
  }
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.placement, a.layer, a.position) < std::tie(b.placement, b.layer, b.position);
  });
  std::vector<TargetEntry> entries;
  entries.reserve(placed.size());
  for (Placed& found : placed) entries.push_back(std::move(found.entry));
  return entries;
}

}  // namespace meg::checkpoint
