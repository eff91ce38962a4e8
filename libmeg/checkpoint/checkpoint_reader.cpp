#include "libmeg/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "libmeg/checkpoint/checkpoint_args.h"

namespace meg {
namespace {

/// Refuses sizes that no cluster has before anything is multiplied or listed by them.
constexpr int64_t kMostRanks = 1 << 20;

template <class... Args>
Status corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kCorruption, fmt::vformat(format, fmt::make_format_args(args...)));
}

/// The first of `names` that args have as a number above 0.
std::optional<int64_t> first_size(const TorchFile& file, std::initializer_list<const char*> names) {
  const std::optional<PickleId> args = file.graph().find(file.root(), "args");
  if (!args.has_value()) return std::nullopt;
  for (const char* name : names) {
    const std::optional<int64_t> value = int_arg(file.graph(), *args, name);
    if (value.has_value()) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> tensor_size_of(const TorchFile& file) {
  return first_size(file, {"tensor_model_parallel_size", "model_parallel_size"});
}

std::optional<int64_t> pipeline_size_of(const TorchFile& file) {
  return first_size(file, {"pipeline_model_parallel_size"});
}

std::optional<double> version_of(const TorchFile& file) {
  const std::optional<PickleId> id = file.graph().find(file.root(), "checkpoint_version");
  return id.has_value() ? file.graph().as_number(*id) : std::nullopt;
}

std::optional<int64_t> iteration_of(const TorchFile& file) {
  const std::optional<PickleId> id = file.graph().find(file.root(), "iteration");
  return id.has_value() ? file.graph().as_int(*id) : std::nullopt;
}

std::string optional_text(const std::optional<int64_t>& value) {
  return value.has_value() ? fmt::format("{}", *value) : "none";
}

}  // namespace

CheckpointReader::CheckpointReader(const CheckpointFolder& folder,
                                   const OpenCheckpointOptions& options, ParameterTable table)
    : options_(options), state_(new MegatronCheckpoint::State(std::move(table))) {
  state_->folder = folder;
}

Result<MegatronCheckpoint> CheckpointReader::read() {
  MEG_RETURN_IF_ERROR(open_files());
  MEG_RETURN_IF_ERROR(check_agreement());
  MEG_RETURN_IF_ERROR(read_config());
  MEG_RETURN_IF_ERROR(read_models());
  MEG_RETURN_IF_ERROR(number_layers());
  MEG_RETURN_IF_ERROR(read_family());
  MEG_RETURN_IF_ERROR(read_optimizers());
  for (const Chunk& chunk : chunks_) MEG_RETURN_IF_ERROR(add_chunk(chunk));
  std::stable_sort(state_->parameters.begin(), state_->parameters.end(),
                   [](const LogicalParameter& a, const LogicalParameter& b) {
                     return a.placement < b.placement;
                   });
  return MegatronCheckpoint(std::move(state_));
}

Status CheckpointReader::open_files() {
  CheckpointFolder& folder = state_->folder;
  if (folder.format == CheckpointFormat::kSingleFile) {
    folder.ranks = {{.numbers = {0}, .name = rank_folder_name(0, 0, 1), .file = folder.folder}};
  } else if (folder.format != CheckpointFormat::kMpRank) {
    return make_error(StatusCode::kUnsupported,
                      "{}: checkpoints of the format {} are not supported yet", folder.folder,
                      checkpoint_format_text(folder.format));
  }
  if (folder.ranks.empty()) {
    return make_error(StatusCode::kNotFound, "{}: expected mp_rank folders, found none",
                      folder.folder);
  }
  std::vector<RankFolder> ranks = folder.ranks;
  MEG_ASSIGN_OR_RETURN(TorchFile opened, TorchFile::open(ranks.front().file));
  auto first = std::make_shared<const TorchFile>(std::move(opened));
  MEG_RETURN_IF_ERROR(read_sizes(*first));
  MEG_RETURN_IF_ERROR(check_rank_folders());
  for (int64_t p = 0; p < state_->pipeline_size; ++p) {
    for (int64_t t = 0; t < state_->tensor_size; ++t) {
      const std::string name = rank_folder_name(t, p, state_->pipeline_size);
      const auto rank = std::find_if(ranks.begin(), ranks.end(), [&](const RankFolder& candidate) {
        return candidate.name == name;
      });
      RankFile file{.tensor_rank = t, .pipeline_rank = p, .folder_name = name, .file = first};
      if (rank->file != first->path()) {
        MEG_ASSIGN_OR_RETURN(TorchFile other, TorchFile::open(rank->file));
        file.file = std::make_shared<const TorchFile>(std::move(other));
      }
      state_->files.push_back(std::move(file));
    }
  }
  return Status();
}

Status CheckpointReader::read_sizes(const TorchFile& first) {
  for (const char* name : {"expert_model_parallel_size", "num_experts"}) {
    const int64_t size = first_size(first, {name}).value_or(1);
    if (size > 1) {
      return make_error(StatusCode::kUnsupported, "{}: experts ({} {}) are not supported yet",
                        first.path(), name, size);
    }
  }
  int64_t most_tensor = 0, most_pipeline = 0;
  for (const RankFolder& rank : state_->folder.ranks) {
    most_tensor = std::max<int64_t>(most_tensor, rank.numbers[0]);
    if (rank.numbers.size() > 1) most_pipeline = std::max<int64_t>(most_pipeline, rank.numbers[1]);
  }
  state_->tensor_size = tensor_size_of(first).value_or(most_tensor + 1);
  state_->pipeline_size = pipeline_size_of(first).value_or(most_pipeline + 1);
  if (state_->tensor_size < 1 || state_->pipeline_size < 1 || state_->tensor_size > kMostRanks ||
      state_->pipeline_size > kMostRanks / state_->tensor_size) {
    return corrupt("{}: args: expected parallel sizes above 0, found tensor {} and pipeline {}",
                   first.path(), state_->tensor_size, state_->pipeline_size);
  }
  return Status();
}

Status CheckpointReader::check_rank_folders() const {
  const CheckpointFolder& folder = state_->folder;
  std::vector<std::string> missing;
  int64_t present = 0;
  for (int64_t p = 0; p < state_->pipeline_size; ++p) {
    for (int64_t t = 0; t < state_->tensor_size; ++t) {
      const std::string name = rank_folder_name(t, p, state_->pipeline_size);
      const bool found = std::any_of(folder.ranks.begin(), folder.ranks.end(),
                                     [&](const RankFolder& rank) { return rank.name == name; });
      if (found) {
        ++present;
      } else {
        missing.push_back(name);
      }
    }
  }
  if (!missing.empty()) {
    constexpr size_t kShown = 8;
    const std::string more = missing.size() > kShown ? " ..." : "";
    const size_t count = missing.size();
    missing.resize(std::min(count, kShown));
    return make_error(StatusCode::kNotFound,
                      "{}: expected {} rank files (tensor {} x pipeline {} in args), found {}; "
                      "missing: {}{}",
                      folder.folder, state_->tensor_size * state_->pipeline_size,
                      state_->tensor_size, state_->pipeline_size, present, fmt::join(missing, " "),
                      more);
  }
  if (folder.ranks.size() != static_cast<size_t>(present)) {
    return corrupt(
        "{}: expected {} rank folders (tensor {} x pipeline {} in args), found {}: of "
        "another checkpoint?",
        folder.folder, present, state_->tensor_size, state_->pipeline_size, folder.ranks.size());
  }
  return Status();
}

Status CheckpointReader::check_agreement() const {
  const TorchFile& first = *state_->files[0].file;
  for (const RankFile& rank : state_->files) {
    const TorchFile& file = *rank.file;
    if (iteration_of(file) != iteration_of(first)) {
      return corrupt("{}: iteration: expected {} as in {}, found {}", file.path(),
                     optional_text(iteration_of(first)), first.path(),
                     optional_text(iteration_of(file)));
    }
    if (version_of(file) != version_of(first)) {
      return corrupt("{}: checkpoint_version: expected {} as in {}, found {}", file.path(),
                     version_of(first).value_or(0), first.path(), version_of(file).value_or(0));
    }
    if (tensor_size_of(file) != tensor_size_of(first) ||
        pipeline_size_of(file) != pipeline_size_of(first)) {
      return corrupt("{}: args: expected tensor {} x pipeline {} as in {}, found {} x {}",
                     file.path(), optional_text(tensor_size_of(first)),
                     optional_text(pipeline_size_of(first)), first.path(),
                     optional_text(tensor_size_of(file)), optional_text(pipeline_size_of(file)));
    }
  }
  return Status();
}

Status CheckpointReader::read_config() {
  const TorchFile& first = *state_->files[0].file;
  state_->version = version_of(first).value_or(0);
  state_->iteration = iteration_of(first);
  if (!state_->iteration.has_value()) state_->iteration = state_->folder.iteration;
  const std::optional<PickleId> args = first.graph().find(first.root(), "args");
  const FieldLookup lookup = [&](std::string_view name) -> std::optional<FieldValue> {
    if (args.has_value()) {
      const std::optional<PickleId> id = find_arg(first.graph(), *args, name);
      if (id.has_value()) return field_value(first.graph(), *id);
    }
    return options_.fallback ? options_.fallback(name) : std::nullopt;
  };
  Result<GptConfig> config = GptConfig::from_fields(lookup);
  if (!config.has_value()) return config.error().with_prefix(first.path() + ": args");
  state_->config = *std::move(config);
  return Status();
}

Status CheckpointReader::read_models() {
  std::vector<RankModel> models;
  for (const RankFile& rank : state_->files) {
    MEG_ASSIGN_OR_RETURN(RankModel model, read_rank_model(*rank.file, state_->table));
    const size_t expected = models.empty() ? model.chunks.size() : models[0].chunks.size();
    if (model.chunks.size() != expected) {
      return corrupt("{}: expected {} virtual stages as in {}, found {}", rank.file->path(),
                     expected, state_->files[0].file->path(), model.chunks.size());
    }
    models.push_back(std::move(model));
  }
  state_->virtual_size = static_cast<int64_t>(models[0].chunks.size());
  for (int64_t c = 0; c < state_->virtual_size; ++c) {
    for (int64_t p = 0; p < state_->pipeline_size; ++p) {
      Chunk chunk;
      chunk.stage = p;
      chunk.chunk = c;
      for (int64_t t = 0; t < state_->tensor_size; ++t) {
        const auto file = static_cast<size_t>(p * state_->tensor_size + t);
        chunk.by_rank.push_back(std::move(models[file].chunks[static_cast<size_t>(c)]));
      }
      MEG_RETURN_IF_ERROR(align_ranks(&chunk));
      chunks_.push_back(std::move(chunk));
    }
  }
  return Status();
}

/// Brings the entries of every tensor rank into the order of rank 0 and compares names and shapes.
Status CheckpointReader::align_ranks(Chunk* chunk) const {
  const std::vector<RankEntry>& first = chunk->by_rank[0];
  for (size_t t = 1; t < chunk->by_rank.size(); ++t) {
    std::unordered_map<std::string_view, const RankEntry*> by_name;
    for (const RankEntry& entry : chunk->by_rank[t]) by_name[entry.flat_name] = &entry;
    const std::string& path =
        state_->files[static_cast<size_t>(chunk->stage * state_->tensor_size) + t].file->path();
    std::vector<RankEntry> aligned;
    for (const RankEntry& entry : first) {
      const auto found = by_name.find(entry.flat_name);
      if (found == by_name.end()) {
        return corrupt("{}: model: expected {} as on tensor rank 0, found none", path,
                       entry.flat_name);
      }
      const RankEntry& other = *found->second;
      const bool is_parameter = !entry.match.is_extra_state;
      if (is_parameter && other.tensor->shape != entry.tensor->shape) {
        return corrupt("{}: model: {}: expected shape {} as on tensor rank 0, found {}", path,
                       entry.flat_name, shape_text(entry.tensor->shape),
                       shape_text(other.tensor->shape));
      }
      if (is_parameter && other.tensor->dtype != entry.tensor->dtype) {
        return corrupt("{}: model: {}: expected {} as on tensor rank 0, found {}", path,
                       entry.flat_name, dtype_name(entry.tensor->dtype),
                       dtype_name(other.tensor->dtype));
      }
      aligned.push_back(other);
    }
    if (aligned.size() != chunk->by_rank[t].size()) {
      return corrupt("{}: model: expected {} entries as on tensor rank 0, found {}", path,
                     first.size(), chunk->by_rank[t].size());
    }
    chunk->by_rank[t] = std::move(aligned);
  }
  return Status();
}

/// Layers count from 0 in every chunk; the model's numbers follow from how many each chunk holds.
Status CheckpointReader::number_layers() {
  int64_t next = 0;
  for (Chunk& chunk : chunks_) {
    chunk.first_layer = next;
    std::vector<int64_t> layers;
    for (const RankEntry& entry : chunk.by_rank[0]) {
      if (entry.match.layer.has_value()) layers.push_back(*entry.match.layer);
    }
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] != static_cast<int64_t>(i)) {
        return corrupt(
            "{}: model: expected layer {}, found {}",
            state_->files[static_cast<size_t>(chunk.stage * state_->tensor_size)].file->path(), i,
            layers[i]);
      }
    }
    next += static_cast<int64_t>(layers.size());
  }
  if (next != state_->config.num_layers) {
    return corrupt("{}: expected {} layers (num_layers in args), found {} in the rank files",
                   state_->folder.folder, state_->config.num_layers, next);
  }
  return Status();
}

Status CheckpointReader::read_family() {
  constexpr std::array kFamilies = {NameFamily::kLegacy, NameFamily::kOld, NameFamily::kFlat,
                                    NameFamily::kMcoreLocal, NameFamily::kMcoreTransformerEngine};
  std::vector<NameFamily> left(kFamilies.begin(), kFamilies.end());
  for (const Chunk& chunk : chunks_) {
    for (const RankEntry& entry : chunk.by_rank[0]) {
      const std::vector<NameFamily>& families = entry.match.families;
      if (entry.match.is_extra_state || families.empty()) continue;
      std::erase_if(left, [&](NameFamily family) {
        return std::find(families.begin(), families.end(), family) == families.end();
      });
      if (left.empty()) {
        return corrupt(
            "{}: model: {} is spelled in another way than the names before it",
            state_->files[static_cast<size_t>(chunk.stage * state_->tensor_size)].file->path(),
            entry.flat_name);
      }
      for (const char* word : {"input_norm.", "post_attention_norm.", "final_norm."}) {
        if (entry.flat_name.find(word) != std::string::npos) state_->norm_spelling_is_short = true;
      }
    }
  }
  state_->family = left.front();
  return Status();
}

Status CheckpointReader::read_optimizers() {
  std::vector<std::vector<OptimizedParameter>> parameters(state_->files.size());
  for (Chunk& chunk : chunks_) {
    chunk.state_index.assign(chunk.by_rank[0].size(), -1);
    for (int64_t t = 0; t < state_->tensor_size; ++t) {
      auto& own = parameters[static_cast<size_t>(chunk.stage * state_->tensor_size + t)];
      for (size_t e = 0; e < chunk.by_rank[0].size(); ++e) {
        const RankEntry& entry = chunk.by_rank[static_cast<size_t>(t)][e];
        if (entry.match.is_extra_state) continue;
        chunk.state_index[e] = static_cast<int>(own.size());
        own.push_back({entry.flat_name, entry.tensor});
      }
    }
  }
  if (options_.ignore_optimizer) return Status();
  for (size_t i = 0; i < state_->files.size(); ++i) {
    const TorchFile& file = *state_->files[i].file;
    MEG_ASSIGN_OR_RETURN(RankOptimizer read, read_rank_optimizer(file, parameters[i]));
    if (!optimizers_.empty() && (read.layout.form != optimizers_[0].layout.form ||
                                 read.layout.has_state != optimizers_[0].layout.has_state)) {
      return corrupt("{}: optimizer: expected the form of {}", file.path(),
                     state_->files[0].file->path());
    }
    optimizers_.push_back(std::move(read));
  }
  state_->optimizer = optimizers_[0].layout;
  for (const RankOptimizer& rank : optimizers_) {
    state_->optimizer.groups_by_first_appearance |= rank.layout.groups_by_first_appearance;
  }
  return Status();
}

bool CheckpointReader::is_tied_copy(const ParameterMatch& match) const {
  return match.placement == Placement::kOutput && match.partition == Partition::kVocabulary &&
         !state_->config.untie_embeddings_and_output_weights;
}

Status CheckpointReader::add_chunk(const Chunk& chunk) {
  for (size_t e = 0; e < chunk.by_rank[0].size(); ++e) {
    const ParameterMatch& match = chunk.by_rank[0][e].match;
    if (match.is_extra_state) {
      add_extra_state(chunk, e);
      continue;
    }
    LogicalParameter parameter;
    MEG_RETURN_IF_ERROR(add_parameter(chunk, e, &parameter));
    MEG_RETURN_IF_ERROR(add_state(chunk, e, &parameter));
    if (is_tied_copy(match)) {
      state_->tied_copy = std::move(parameter);
    } else {
      state_->parameters.push_back(std::move(parameter));
    }
  }
  return Status();
}

Status CheckpointReader::add_parameter(const Chunk& chunk, size_t entry,
                                       LogicalParameter* parameter) const {
  const RankEntry& first = chunk.by_rank[0][entry];
  const ParameterMatch& match = first.match;
  parameter->canonical = match.canonical;
  parameter->spelling = match.spelling;
  if (match.layer.has_value()) parameter->layer = chunk.first_layer + *match.layer;
  parameter->name =
      match.layer.has_value() ? with_layer(match.canonical, *parameter->layer) : match.canonical;
  parameter->partition = match.partition;
  parameter->placement = match.placement;
  parameter->stage = chunk.stage;
  parameter->chunk = chunk.chunk;
  parameter->weight_decay = has_weight_decay(first.flat_name, first.tensor->shape.size());
  Result<ShardAxes> axes = shard_axes(match.partition, first.tensor->shape, state_->tensor_size,
                                      state_->config, state_->version);
  if (!axes.has_value()) {
    const auto file = static_cast<size_t>(chunk.stage * state_->tensor_size);
    return axes.error().with_prefix(
        fmt::format("{}: model: {}", state_->files[file].file->path(), first.flat_name));
  }
  parameter->axes = *std::move(axes);
  parameter->shape = merged_shape(match.partition, first.tensor->shape, state_->tensor_size);
  LogicalTensor weight;
  weight.kind = "weight";
  weight.dtype = first.tensor->dtype;
  for (size_t t = 0; t < chunk.by_rank.size(); ++t) {
    weight.shards.push_back(
        {.file = static_cast<int>(chunk.stage * state_->tensor_size) + static_cast<int>(t),
         .view = *chunk.by_rank[t][entry].tensor});
  }
  parameter->tensors.push_back(std::move(weight));
  return Status();
}

Status CheckpointReader::add_state(const Chunk& chunk, size_t entry,
                                   LogicalParameter* parameter) const {
  if (optimizers_.empty() || state_->optimizer.form == OptimizerForm::kDistributed ||
      state_->optimizer.form == OptimizerForm::kNone) {
    return Status();
  }
  const auto first_file = static_cast<size_t>(chunk.stage * state_->tensor_size);
  const auto index = static_cast<size_t>(chunk.state_index[entry]);
  const RankState& first = optimizers_[first_file].states[index];
  parameter->other_state = first.other;
  for (size_t k = 0; k < first.tensors.size(); ++k) {
    LogicalTensor tensor;
    tensor.kind = first.tensors[k].first;
    tensor.dtype = first.tensors[k].second.dtype;
    for (size_t t = 0; t < chunk.by_rank.size(); ++t) {
      const RankState& rank = optimizers_[first_file + t].states[index];
      if (rank.tensors.size() != first.tensors.size() || rank.tensors[k].first != tensor.kind ||
          rank.tensors[k].second.dtype != tensor.dtype) {
        return corrupt("{}: optimizer: {}: expected {} in {} as on tensor rank 0",
                       state_->files[first_file + t].file->path(), parameter->name, tensor.kind,
                       dtype_name(tensor.dtype));
      }
      tensor.shards.push_back(
          {.file = static_cast<int>(first_file + t), .view = rank.tensors[k].second});
    }
    parameter->tensors.push_back(std::move(tensor));
  }
  return Status();
}

void CheckpointReader::add_extra_state(const Chunk& chunk, size_t entry) {
  const ParameterMatch& match = chunk.by_rank[0][entry].match;
  ExtraState extra;
  extra.spelling = match.spelling;
  extra.stage = chunk.stage;
  extra.chunk = chunk.chunk;
  if (match.layer.has_value()) extra.layer = chunk.first_layer + *match.layer;
  for (const std::vector<RankEntry>& rank : chunk.by_rank) extra.nodes.push_back(rank[entry].node);
  state_->extra_states.push_back(std::move(extra));
}

}  // namespace meg
