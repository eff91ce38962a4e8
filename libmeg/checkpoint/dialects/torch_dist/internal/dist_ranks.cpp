#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_common.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_optimizer.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_shards.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/fsdp_common.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/fsdp_names.h"
#include "libmeg/checkpoint/state/converted_source.h"
#include "libmeg/checkpoint/state/same_bytes.h"
#include "libmeg/model/expert_names.h"
#include "libmeg/model/pipeline_layout.h"
#include "libmeg/text/printable.h"

// Shows a folder as rank files: every parameter is cut for each tensor rank, put into the chunk
// that has its layer and named as a rank's state dict names it. From there on a torch_dist
// checkpoint goes the way of any other. Nothing is copied: the composed files read from the chunks
// of the folder.

namespace meg::checkpoint {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;

constexpr const char* kRngKey = "rng_state";
constexpr const char* kRerunKey = "rerun_state_machine";

/// Among the items of core 0.19: what common.pt has said before.
/// Items are searched only if there is no common.pt.
constexpr std::string_view kCommonItem = "common_state/shard_0_1";

/// What is the same for all ranks; nullptr where a folder does not say it.
Result<std::shared_ptr<const TorchFile>> common_file(const DistFolder& folder) {
  for (const DistObject& object : folder.metadata().objects) {
    if (folder.common() != nullptr || object.name != kCommonItem) continue;
    RankDraft draft;
    MEG_ASSIGN_OR_RETURN(draft.content().root, copy_dist_object(folder, object, &draft));
    MEG_ASSIGN_OR_RETURN(TorchFile file, draft.finish(folder.path(), object.blob.length));
    return std::make_shared<const TorchFile>(std::move(file));
  }
  return folder.common();
}

bool is_of_optimizer(std::string_view name) {
  return without_chain_prefix(name).starts_with(kDistOptimizerPrefix);
}

/// An expert's name where experts are grouped; other names stay.
std::string grouped_expert_name(const std::string& name) {
  std::optional<model::ExpertName> expert = model::parse_expert_name(name);
  if (!expert.has_value()) return name;
  expert->is_grouped = true;
  return model::with_expert(*expert, expert->expert);
}

/// The place of an expert's parameter in its layer: grouped modules list the experts' matrices,
/// then their biases, module after module.
std::optional<std::pair<std::string_view, int64_t>> grouped_place(std::string_view canonical) {
  const std::optional<model::ExpertName> expert = model::parse_expert_name(canonical);
  if (!expert.has_value()) return std::nullopt;
  return std::pair(expert->parameter.substr(0, expert->parameter.find('.')), expert->expert);
}

class RanksReader {
 public:
  /// common: as common_file() gives it.
  /// hybrid: the pattern of its args, see hybrid_pattern().
  /// is_fsdp: the folder is Megatron-FSDP's.
  /// ignore_optimizer: the folder has been opened without its items.
  RanksReader(const DistFolder& folder, const model::ParameterTable& table, const DistModel& model,
              std::shared_ptr<const TorchFile> common,
              const std::optional<model::HybridPattern>& hybrid, bool is_fsdp,
              bool ignore_optimizer)
      : folder_(folder),
        table_(table),
        model_(model),
        common_(std::move(common)),
        hybrid_(hybrid),
        is_fsdp_(is_fsdp),
        ignore_optimizer_(ignore_optimizer) {
    if (hybrid.has_value()) {
      family_ = model::NameFamily::kHybrid;
      return;
    }
    // What Megatron takes where a run does not say.
    const std::string layers = common_.text("transformer_impl");
    family_ = model::mcore_family(layers.empty() ? "transformer_engine" : layers);
    is_grouped_ = model::has_fused_norms(family_) && common_.says("moe_grouped_gemm") &&
                  !common_.says("moe_use_legacy_grouped_gemm");
  }

  Result<RankFiles> read() {
    MEG_RETURN_IF_ERROR(check_optimizer());
    MEG_RETURN_IF_ERROR(find_sizes());
    order_parameters();
    MEG_RETURN_IF_ERROR(find_expert_size());
    RankFiles found{.tensor_size = tensor_size_,
                    .pipeline_size = pipeline_size_,
                    .expert_size = expert_size_,
                    .version = common_.version(),
                    .iteration = common_.iteration(),
                    .files = {},
                    .notes = {}};
    for (int64_t p = 0; p < pipeline_size_; ++p) {
      MEG_ASSIGN_OR_RETURN(std::vector<RankFile> stage, read_stage(p));
      std::move(stage.begin(), stage.end(), std::back_inserter(found.files));
    }
    found.buffer_alignment = buffer_alignment_;
    return found;
  }

 private:
  /// A parameter of one layer, or outside the layers.
  struct Entry {
    const DistParameter* parameter = nullptr;
    std::optional<int64_t> layer;
    model::Placement placement = model::Placement::kLayer;
    std::string canonical;
  };

  Status check_optimizer() const;
  Status find_sizes();
  Status find_layout();
  Result<model::PipelineLayout> stated_layout() const;
  Status find_expert_size();
  void order_parameters();
  bool is_in(const Entry& entry, int64_t stage, int64_t chunk) const;
  Result<std::vector<RankFile>> read_stage(int64_t stage);
  Result<DistCut> cut(const Entry& entry, int64_t first_layer) const;
  Result<bool> is_state_turned(const DistShards& shards, const DistParameter& parameter,
                               std::optional<int64_t> layer, const TensorSource& weight) const;
  void round_masters(DistCut* cut) const;
  Status check_own_masters(const DistCut& cut) const;
  PickleId rng_state_of(const PickleGraph& graph, PickleId states, int64_t stage,
                        int64_t tensor_rank) const;
  Result<TorchFile> read_rank(const DistChunks& chunks, int64_t stage, int64_t tensor_rank);
  Result<PickleId> add_model(const DistChunks& chunks, int64_t stage, int64_t chunk,
                             int64_t tensor_rank, RankDraft* draft) const;
  std::string rank_name(int64_t stage, int64_t tensor_rank) const;
  const DistObject* shard(std::string_view key, int64_t stage, int64_t tensor_rank) const;

  const DistFolder& folder_;
  const model::ParameterTable& table_;
  const DistModel& model_;
  CommonState common_;
  const std::optional<model::HybridPattern>& hybrid_;
  bool is_fsdp_, ignore_optimizer_;
  model::NameFamily family_ = model::NameFamily::kMcoreTransformerEngine;
  int64_t tensor_size_ = 1, pipeline_size_ = 1, virtual_size_ = 1;
  int64_t expert_size_ = 1, expert_tensor_size_ = 1;
  std::optional<model::PipelineLayout> layout_;
  std::vector<Entry> entries_;
  std::set<int64_t> expert_layers_;
  bool is_grouped_ = false;  // experts are
  std::optional<int64_t> buffer_alignment_;
};

/// State without settings would be left out: what is read of an optimizer begins with these.
Status RanksReader::check_optimizer() const {
  const std::optional<PickleId> settings = common_.top("optimizer");
  if (settings.has_value() && common_.file()->graph().node(*settings).kind != PickleKind::kNone) {
    return {};
  }
  const auto first_of = [](const auto& items) -> const std::string* {
    const auto found = std::find_if(items.begin(), items.end(),
                                    [](const auto& item) { return is_of_optimizer(item.name); });
    return found == items.end() ? nullptr : &found->name;
  };
  const std::string* name = first_of(folder_.metadata().tensors);
  if (name == nullptr) name = first_of(folder_.metadata().objects);
  if (name == nullptr) return {};
  return make_error(StatusCode::kCorruption,
                    "{}: optimizer: expected its settings in {}, found only {}; `ignore_optimizer "
                    "= true` skips it",
                    folder_.path(), kDistCommonFile, text::printable(*name, 200));
}

Status RanksReader::find_sizes() {
  tensor_size_ = common_.size("tensor_model_parallel_size").value_or(1);
  pipeline_size_ = common_.size("pipeline_model_parallel_size").value_or(1);
  // Without args the generators say how many ranks there were: each pair of stage and tensor rank
  // has saved its own.
  for (const DistObject& object : folder_.metadata().objects) {
    const std::optional<DistShardName> name = parse_shard_name(object.name);
    const bool is_stated = common_.size("tensor_model_parallel_size").has_value();
    if (is_stated || !name.has_value() || name->key != kRngKey || name->sizes.size() != 2) continue;
    pipeline_size_ = name->sizes[0];
    tensor_size_ = name->sizes[1];
  }
  if (tensor_size_ < 1 || pipeline_size_ < 1 || tensor_size_ > kMaxRanks ||
      pipeline_size_ > kMaxRanks / tensor_size_) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected parallel sizes above 0, found tensor {} and pipeline {}",
                      folder_.path(), tensor_size_, pipeline_size_);
  }
  if (is_fsdp_ && pipeline_size_ > 1) {
    return make_error(StatusCode::kUnsupported,
                      "{}: `ckpt_format` fsdp_dtensor with pipeline_model_parallel_size {} is not "
                      "supported: its names do not distinguish the stages",
                      folder_.path(), pipeline_size_);
  }
  return find_layout();
}

/// The layout that args state.
Result<model::PipelineLayout> RanksReader::stated_layout() const {
  model::ParallelSizes sizes = {
      .pipeline_model_parallel_size = pipeline_size_,
      .virtual_pipeline_model_parallel_size =
          common_.size("virtual_pipeline_model_parallel_size").value_or(1)};
  const megatron::FieldLookup args = [this](std::string_view name) { return common_.field(name); };
  megatron::FieldReader fields(args);
  sizes.split.take_fields(fields);
  MEG_RETURN_IF_ERROR(fields.status());
  return model::PipelineLayout::create(model_.num_layers, sizes);
}

/// One stage of all layers where args cut them as GPT models are not cut: tensors of layers have no
/// rank's name.
Status RanksReader::find_layout() {
  // A pattern without segments is cut evenly.
  const auto segments = static_cast<int64_t>(hybrid_.has_value() ? hybrid_->segments.size() : 1);
  const bool is_even =
      segments == 1 || (segments == pipeline_size_ &&
                        std::set(hybrid_->segments.begin(), hybrid_->segments.end()).size() == 1);
  Result<model::PipelineLayout> layout = stated_layout();
  if (!is_even || !layout.has_value()) {
    layout = model::PipelineLayout::create(model_.num_layers, {});
    pipeline_size_ = 1;
  }
  if (!layout.has_value()) return layout.error().with_prefix(folder_.path());
  virtual_size_ = layout->chunks();
  layout_ = *std::move(layout);
  return {};
}

Status RanksReader::find_expert_size() {
  if (expert_layers_.empty()) return {};
  expert_size_ = common_.size("expert_model_parallel_size").value_or(1);
  expert_tensor_size_ = common_.size("expert_tensor_parallel_size").value_or(tensor_size_);
  if (expert_tensor_size_ < 1 || expert_tensor_size_ > kMaxRanks) {
    return make_error(StatusCode::kCorruption,
                      "{}: args: expected an expert_tensor_parallel_size above 0, found {}",
                      folder_.path(), expert_tensor_size_);
  }
  const int64_t experts = common_.size("num_experts").value_or(0);
  if (expert_size_ == 1 || (expert_size_ > 1 && experts > 0 && experts % expert_size_ == 0)) {
    return {};
  }
  return make_error(StatusCode::kCorruption,
                    "{}: args: expected an expert_model_parallel_size that divides num_experts {}, "
                    "found {}",
                    folder_.path(), experts, expert_size_);
}

/// Puts the entries in the order in which named_parameters() of the model has them.
void RanksReader::order_parameters() {
  const DistParameter* embedding = nullptr;
  bool has_output = false;
  for (const DistParameter& parameter : model_.parameters) {
    const model::ParameterMatch& match = parameter.match;
    const bool is_table = match.partition == model::Partition::kVocabulary;
    if (is_table && match.placement == model::Placement::kEmbedding) embedding = &parameter;
    has_output = has_output || (is_table && match.placement == model::Placement::kOutput);
    const int64_t layers = parameter.is_stacked ? model_.num_layers : 1;
    for (int64_t layer = 0; layer < layers; ++layer) {
      entries_.push_back({&parameter, parameter.is_stacked ? std::optional(layer) : match.layer,
                          match.placement, match.canonical});
      if (match.expert.has_value()) expert_layers_.insert(entries_.back().layer.value_or(0));
    }
  }
  // A copy by name: the folder has the table once, and both entries read it.
  // Stages that are not the first have a copy of a tied embedding; here it is saved once.
  if (!has_output && pipeline_size_ > 1 && embedding != nullptr) {
    entries_.push_back(
        {embedding, {}, model::Placement::kOutput, std::string(model::kTiedCopyName)});
  }
  // Sort in the order of named_parameters(), in which optimizers number parameters.
  std::stable_sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    if (a.placement != b.placement) return a.placement < b.placement;
    if (a.layer != b.layer) return a.layer < b.layer;
    if (is_grouped_) {
      const auto left = grouped_place(a.canonical), right = grouped_place(b.canonical);
      if (left.has_value() && right.has_value() && left != right) return left < right;
    }
    return table_.order(a.canonical, family_) < table_.order(b.canonical, family_);
  });
}

bool RanksReader::is_in(const Entry& entry, int64_t stage, int64_t chunk) const {
  if (entry.layer.has_value()) {
    const int64_t place = *entry.layer - layout_->first_layer(stage, chunk);
    return place >= 0 && place < layout_->layers(stage, chunk);
  }
  return entry.placement == model::Placement::kEmbedding ? layout_->is_first(stage, chunk)
                                                         : layout_->is_last(stage, chunk);
}

std::string RanksReader::rank_name(int64_t stage, int64_t tensor_rank) const {
  return fmt::format("{}: tensor rank {}, pipeline rank {}", folder_.path(), tensor_rank, stage);
}

/// The object that such a rank saved. Objects of runs with other sizes, or with more dimensions,
/// are identified by the tensor rank in their last place.
const DistObject* RanksReader::shard(std::string_view key, int64_t stage,
                                     int64_t tensor_rank) const {
  const DistObject* found = nullptr;
  for (const DistObject& object : folder_.metadata().objects) {
    const std::optional<DistShardName> name = parse_shard_name(object.name);
    if (!name.has_value() || name->key != key || name->offsets.size() < 2) continue;
    if (name->offsets[0] == stage && name->offsets[1] == tensor_rank) return &object;
    if (found == nullptr || (name->offsets[0] == 0 && name->offsets[1] == tensor_rank)) {
      found = &object;
    }
  }
  return found;
}

Result<std::vector<RankFile>> RanksReader::read_stage(int64_t stage) {
  DistChunks chunks(static_cast<size_t>(virtual_size_));
  for (int64_t c = 0; c < virtual_size_; ++c) {
    for (const Entry& entry : entries_) {
      if (!is_in(entry, stage, c)) continue;
      MEG_ASSIGN_OR_RETURN(DistCut made, cut(entry, layout_->first_layer(stage, c)));
      chunks[static_cast<size_t>(c)].push_back(std::move(made));
    }
  }
  std::vector<RankFile> files;
  for (int64_t t = 0; t < tensor_size_; ++t) {
    MEG_ASSIGN_OR_RETURN(TorchFile file, read_rank(chunks, stage, t));
    files.push_back({.tensor_rank = t,
                     .pipeline_rank = stage,
                     .folder_name = rank_folder_name(t, stage, pipeline_size_),
                     .file = std::make_shared<const TorchFile>(std::move(file))});
  }
  return files;
}

/// first_layer: of its chunk.
Result<DistCut> RanksReader::cut(const Entry& entry, int64_t first_layer) const {
  const DistShards shards(folder_, tensor_size_);
  const DistParameter& parameter = *entry.parameter;
  std::optional<std::string> spelled = table_.spell(entry.canonical, family_);
  // Layers with experts keep this norm apart: Transformer Engine fuses it into the first matrix of
  // a dense MLP, but not into experts.
  const bool is_kept = model::is_norm_before_mlp(entry.canonical) && entry.layer.has_value() &&
                       expert_layers_.contains(*entry.layer);
  if (is_kept) spelled = entry.canonical;
  if (!spelled.has_value()) {
    return make_error(StatusCode::kUnsupported, "{}: {}: {} has no such parameter", folder_.path(),
                      text::printable(parameter.name, 200), model::name_family_text(family_));
  }
  DistCut made;
  if (is_grouped_) spelled = grouped_expert_name(*spelled);
  made.flat_name = entry.layer.has_value()
                       ? model::with_layer(*spelled, *entry.layer - first_layer, family_)
                       : *spelled;
  made.is_table = parameter.match.partition == model::Partition::kVocabulary;
  const std::optional<int64_t> row = parameter.is_stacked ? entry.layer : std::nullopt;
  made.is_buffer = parameter.match.is_buffer;
  made.expert = parameter.match.expert;
  made.parameter = &parameter;
  made.stacked_layer = row;
  MEG_ASSIGN_OR_RETURN(made.shape, shards.shape(parameter));
  MEG_ASSIGN_OR_RETURN(made.weights, shards.cut(parameter, *parameter.weight, row));
  MEG_ASSIGN_OR_RETURN(const bool is_turned,
                       is_state_turned(shards, parameter, row, *made.weights[0]));
  for (const auto& [kind, tensor] : parameter.states) {
    MEG_ASSIGN_OR_RETURN(made.states[kind], shards.cut(parameter, *tensor, row, is_turned));
  }
  if (is_fsdp_) round_masters(&made);
  MEG_RETURN_IF_ERROR(check_own_masters(made));
  return made;
}

/// Whether flattened states of an expert's matrix are those of its transpose: core up to 0.15
/// transposes the weights of GroupedMLP as other experts have them, and leaves its flattened states
/// as they are. Their shapes may be the same, so the masters are compared with the weight.
Result<bool> RanksReader::is_state_turned(const DistShards& shards, const DistParameter& parameter,
                                          std::optional<int64_t> layer,
                                          const TensorSource& weight) const {
  // Where args do not know the flag (core to 0.9), both may be.
  constexpr const char* kFlag = "moe_use_legacy_grouped_gemm";
  const bool is_stated = common_.field(kFlag).has_value();
  const bool may_be = parameter.match.expert.has_value() && parameter.shape().size() == 2 &&
                      common_.says("moe_grouped_gemm") && (!is_stated || common_.says(kFlag));
  if (!may_be) return false;
  const auto master =
      std::find_if(parameter.states.begin(), parameter.states.end(),
                   [](const auto& state) { return state.first.ends_with("param"); });
  const bool is_flat =
      master != parameter.states.end() && master->second->shape != parameter.weight->shape;
  if (!is_flat) return false;
  for (const bool is_turned : {true, false}) {
    if (is_stated && !is_turned) break;
    const auto parts = shards.cut(parameter, *master->second, layer, is_turned);
    if (!parts.has_value()) continue;  // of another shape
    MEG_ASSIGN_OR_RETURN(const bool fits, is_master_of(*(*parts)[0], weight));
    if (fits) return is_turned;
  }
  return make_error(StatusCode::kCorruption,
                    "{}: {}: expected the fp32 weights of {}, found different values",
                    folder_.path(), text::printable(master->second->name, 200),
                    text::printable(parameter.name, 200));
}

/// Megatron-FSDP's model is what its optimizer steps: in 16-bit runs the masters. The weights are
/// these, rounded.
void RanksReader::round_masters(DistCut* cut) const {
  const std::optional<DType> type = common_.says("bf16")   ? std::optional(DType::kBFloat16)
                                    : common_.says("fp16") ? std::optional(DType::kFloat16)
                                                           : std::nullopt;
  if (!type.has_value() || cut->is_buffer || cut->weights[0]->dtype() != DType::kFloat32) return;
  cut->states.emplace("param", cut->weights);
  for (std::shared_ptr<const TensorSource>& weight : cut->weights) {
    weight = converted(std::move(weight), *type);
  }
}

/// Weights in fp32 are their own masters: where the distributed optimizer saved others, its moments
/// are of others as well.
Status RanksReader::check_own_masters(const DistCut& cut) const {
  const auto masters = cut.states.find("param");
  if (masters == cut.states.end() || cut.weights[0]->dtype() != DType::kFloat32) return {};
  for (size_t t = 0; t < cut.weights.size(); ++t) {
    MEG_ASSIGN_OR_RETURN(const bool same, seem_same_bytes(*masters->second[t], *cut.weights[t]));
    if (same) continue;
    return make_error(
        StatusCode::kCorruption,
        "{}: optimizer.state.param.{}: expected the model's fp32 weights, found different values; "
        "megatron-core shifts all state after the first of several buckets where it saves them in "
        "the form fully_reshardable; `ignore_optimizer = true` (in training `no_load_optim`) skips "
        "the optimizer",
        folder_.path(), text::printable(cut.parameter->name, 200));
  }
  return {};
}

/// Megatron-FSDP keeps those of all ranks in one dict: {"(PIPELINE, TENSOR)": [...]}.
PickleId RanksReader::rng_state_of(const PickleGraph& graph, PickleId states, int64_t stage,
                                   int64_t tensor_rank) const {
  const std::span<const PickleId> pairs = graph.pairs(states);
  if (pairs.empty()) return states;
  // Megatron does the same for ranks that a run of other sizes did not have.
  return graph.find(states, fmt::format("({}, {})", stage, tensor_rank)).value_or(pairs[1]);
}

Result<TorchFile> RanksReader::read_rank(const DistChunks& chunks, int64_t stage,
                                         int64_t tensor_rank) {
  const DistRank rank{.tensor_rank = tensor_rank,
                      .stage = stage,
                      .tensor_size = tensor_size_,
                      .pipeline_size = pipeline_size_,
                      .expert_size = expert_size_,
                      .expert_tensor_size = expert_tensor_size_,
                      .name = rank_name(stage, tensor_rank)};
  RankDraft draft;
  PickleGraph& graph = draft.graph();
  PickleId common = 0;
  if (common_.file() != nullptr) {
    MEG_ASSIGN_OR_RETURN(common, draft.copy(common_.file()));
  } else {
    common = graph.add_dict();
  }
  std::vector<PickleId> pairs;
  for (int64_t c = 0; c < virtual_size_; ++c) {
    MEG_ASSIGN_OR_RETURN(const PickleId model, add_model(chunks, stage, c, tensor_rank, &draft));
    const std::string key = virtual_size_ == 1 ? "model" : fmt::format("model{}", c);
    pairs.insert(pairs.end(), {graph.add_string(key), model});
  }
  const std::vector<PickleId> found(graph.pairs(common).begin(), graph.pairs(common).end());
  for (size_t i = 0; i + 1 < found.size(); i += 2) {
    const std::string key(graph.as_string(found[i]).value_or(""));
    PickleId value = found[i + 1];
    // It says in which of torch_dist's forms the optimizer was.
    if (key == "content_metadata") continue;
    if (key == "optimizer" && ignore_optimizer_) continue;
    if (key == "optimizer" && graph.node(value).kind != PickleKind::kNone) {
      MEG_ASSIGN_OR_RETURN(value, add_dist_optimizer(folder_, common_, chunks, rank, value, &draft,
                                                     &buffer_alignment_));
    }
    if (key == kRngKey) value = rng_state_of(graph, value, stage, tensor_rank);
    if (const DistObject* own =
            key == kRerunKey ? shard("rerun_state_machine_state", stage, tensor_rank) : nullptr) {
      MEG_ASSIGN_OR_RETURN(const PickleId state, copy_dist_object(folder_, *own, &draft));
      std::vector<PickleId> both(graph.pairs(value).begin(), graph.pairs(value).end());
      both.insert(both.end(), {graph.add_string("sharded"), state});
      value = graph.add_dict(std::move(both));
    }
    pairs.insert(pairs.end(), {found[i], value});
  }
  if (const DistObject* own = shard(kRngKey, stage, tensor_rank)) {
    MEG_ASSIGN_OR_RETURN(const PickleId states, copy_dist_object(folder_, *own, &draft));
    pairs.insert(pairs.end(), {graph.add_string(kRngKey), states});
  }
  draft.content().root = graph.add_dict(std::move(pairs));
  // Each composed file counts its share of the bytes, so that limits by size are as for rank files.
  const uint64_t ranks = static_cast<uint64_t>(tensor_size_ * pipeline_size_);
  return draft.finish(rank.name, folder_.bytes() / ranks);
}

Result<PickleId> RanksReader::add_model(const DistChunks& chunks, int64_t stage, int64_t chunk,
                                        int64_t tensor_rank, RankDraft* draft) const {
  PickleGraph& graph = draft->graph();
  const int64_t first_layer = layout_->first_layer(stage, chunk);
  std::vector<PickleId> pairs;
  for (const DistCut& cut : chunks[static_cast<size_t>(chunk)]) {
    const PickleId name = graph.add_string(cut.flat_name);
    const PickleId tensor =
        draft->add_tensor(cut.weights[static_cast<size_t>(tensor_rank)], cut.shape);
    pairs.insert(pairs.end(), {name, tensor});
  }
  for (const DistExtraState& extra : model_.extra_states) {
    const model::ParameterMatch& match = extra.match;
    const Entry place{nullptr, match.layer, match.placement, match.canonical};
    const std::optional<std::string> spelled = table_.spell(match.canonical, family_);
    if (!is_in(place, stage, chunk) || !spelled.has_value()) continue;
    MEG_ASSIGN_OR_RETURN(const PickleId state, copy_dist_object(folder_, *extra.object, draft));
    const std::string name = match.layer.has_value()
                                 ? model::with_layer(*spelled, *match.layer - first_layer, family_)
                                 : *spelled;
    pairs.insert(pairs.end(), {graph.add_string(name), state});
  }
  return graph.add_dict(std::move(pairs));
}

}  // namespace

CheckpointFormat dist_format(const std::string& folder) {
  if (!metadata_mentions(folder, kFsdpModelPrefix)) return CheckpointFormat::kTorchDist;
  const Result<DistMetadata> metadata = read_folder_metadata(folder);
  const bool is_fsdp = metadata.has_value() && is_fsdp_dtensor(*metadata);
  return is_fsdp ? CheckpointFormat::kFsdpDtensor : CheckpointFormat::kTorchDist;
}

Result<RankFiles> open_torch_dist(const CheckpointFolder& found, bool ignore_optimizer) {
  MEG_ASSIGN_OR_RETURN(const model::ParameterTable table, model::ParameterTable::gpt());
  const bool is_fsdp = found.format == CheckpointFormat::kFsdpDtensor;
  const auto rename = [&](DistMetadata metadata) -> Result<DistMetadata> {
    if (ignore_optimizer) {
      const auto is_of_it = [](const auto& item) { return is_of_optimizer(item.name); };
      std::erase_if(metadata.tensors, is_of_it);
      std::erase_if(metadata.objects, is_of_it);
    }
    if (!is_fsdp) return metadata;
    return with_torch_dist_names(std::move(metadata), found.folder);
  };
  MEG_ASSIGN_OR_RETURN(const DistFolder folder, DistFolder::open(found.folder, rename));
  MEG_ASSIGN_OR_RETURN(std::shared_ptr<const TorchFile> common,
                       is_fsdp ? fsdp_common(folder, table) : common_file(folder));
  std::optional<model::HybridPattern> hybrid;
  if (common != nullptr) {
    const PickleGraph& graph = common->graph();
    Result<std::optional<model::HybridPattern>> pattern =
        hybrid_pattern(graph, graph.find(common->root(), "args"));
    if (!pattern.has_value()) return pattern.error().with_prefix(found.folder + ": args");
    hybrid = *std::move(pattern);
  }
  MEG_ASSIGN_OR_RETURN(const DistModel model, read_dist_model(folder, table, hybrid.has_value()));
  if (model.parameters.empty()) {
    return make_error(StatusCode::kNotFound, "{}: expected parameters of a model, found none",
                      found.folder);
  }
  return RanksReader(folder, table, model, std::move(common), hybrid, is_fsdp, ignore_optimizer)
      .read();
}

}  // namespace meg::checkpoint
