#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/expert_names.h"
#include "libmeg/model/pipeline_layout.h"

// Puts rank files together to one logical model. Each step needs the one before: names
// (read_models), the model's shape (read_config), the same order on all ranks (make_chunks),
// layers' numbers in the whole model (number_layers), how names are spelled (read_family), the
// optimizer's states by parameter (read_optimizers), and at last the parameters with their pieces.
//
// Everything in this file works on metadata. Whatever could make a later copy go wrong (a missing
// layer, another shape on one rank) is an error here, before a byte of a tensor is read.

namespace meg::checkpoint {
namespace {

constexpr const char* kNoArgs =
    ": no args: give the model's shape with flags (`num_layers`, `hidden_size` ...)";

}  // namespace

CheckpointReader::CheckpointReader(const CheckpointFolder& folder,
                                   const OpenCheckpointOptions& options,
                                   model::ParameterTable table)
    : options_(options), state_(new MegatronCheckpoint::State(std::move(table))) {
  state_->folder = folder;
}

Result<MegatronCheckpoint> CheckpointReader::read() {
  MEG_ASSIGN_OR_RETURN(RankFiles ranks,
                       open_rank_files(state_->folder, options_,
                                       options_.ignore_optimizer ? nullptr : &state_->table));
  return read(std::move(ranks));
}

Result<MegatronCheckpoint> CheckpointReader::read(RankFiles ranks) {
  state_->tensor_size = ranks.tensor_size;
  state_->pipeline_size = ranks.pipeline_size;
  state_->expert_size = ranks.expert_size;
  is_part_ = ranks.is_part;
  expert_tensor_size_ = ranks.expert_tensor_size;
  state_->optimizer.is_distributed = ranks.has_distributed_optimizer;
  state_->optimizer.buffer_alignment = ranks.buffer_alignment;
  state_->version = ranks.version;
  state_->iteration = ranks.iteration.has_value() ? ranks.iteration : state_->folder.iteration;
  state_->files = std::move(ranks.files);
  state_->notes = std::move(ranks.notes);
  // Names first: args of models of another kind lack what GPT's have.
  MEG_ASSIGN_OR_RETURN(std::vector<RankModel> models, read_models());
  MEG_RETURN_IF_ERROR(read_config());
  MEG_RETURN_IF_ERROR(make_chunks(std::move(models)));
  MEG_RETURN_IF_ERROR(number_layers());
  for (const Chunk& chunk : chunks_) MEG_RETURN_IF_ERROR(check_experts(chunk));
  MEG_RETURN_IF_ERROR(read_family());
  MEG_RETURN_IF_ERROR(read_optimizers());
  for (const Chunk& chunk : chunks_) MEG_RETURN_IF_ERROR(add_chunk(chunk));
  MEG_RETURN_IF_ERROR(check_volume());
  // Sort them by their place in the model, embedding first. The sort is stable, so that parameters
  // of one layer stay in the files' order.
  std::stable_sort(state_->parameters.begin(), state_->parameters.end(),
                   [](const LogicalParameter& a, const LogicalParameter& b) {
                     return a.placement < b.placement;
                   });
  return MegatronCheckpoint(std::move(state_));
}

int64_t CheckpointReader::tensor_ranks() const { return is_part_ ? 1 : state_->tensor_size; }

int64_t CheckpointReader::stages() const { return is_part_ ? 1 : state_->pipeline_size; }

// Of whole checkpoints, experts have been cut again for the tensor-parallel ranks.
int64_t CheckpointReader::tensor_size_of(const model::ParameterMatch& match) const {
  return is_part_ && match.expert.has_value() ? expert_tensor_size_ : state_->tensor_size;
}

size_t CheckpointReader::file_at(int64_t stage, int64_t tensor_rank) const {
  return static_cast<size_t>(stage * tensor_ranks() + tensor_rank);
}

const std::string& CheckpointReader::path(int64_t stage, int64_t tensor_rank) const {
  return state_->files[file_at(stage, tensor_rank)].file->path();
}

Status CheckpointReader::read_config() {
  const TorchFile& first = *state_->files[0].file;
  Result<model::GptConfig> config = read_checkpoint_config(first, options_.fallback);
  const bool has_args = first.graph().find(first.root(), "args").has_value();
  if (!config.has_value()) {
    return config.error().with_prefix(first.path() + (has_args ? ": args" : kNoArgs));
  }
  if (!has_args && config->position_embedding_type == "learned_absolute" &&
      config->max_position_embeddings == 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}{}: max_position_embeddings: expected an integer, found nothing",
                      first.path(), kNoArgs);
  }
  MEG_RETURN_IF_ERROR(check_rows_of_args(first));
  state_->config = *std::move(config);
  MEG_ASSIGN_OR_RETURN(state_->hybrid,
                       hybrid_pattern(first.graph(), first.graph().find(first.root(), "args")));
  return Status();
}

Result<std::vector<RankModel>> CheckpointReader::read_models() const {
  std::vector<RankModel> models;
  for (const RankFile& rank : state_->files) {
    MEG_ASSIGN_OR_RETURN(RankModel model, read_rank_model(*rank.file, state_->table));
    const size_t expected = models.empty() ? model.chunks.size() : models[0].chunks.size();
    if (model.chunks.size() != expected) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected {} virtual stages as in {}, found {}", rank.file->path(),
                        expected, state_->files[0].file->path(), model.chunks.size());
    }
    models.push_back(std::move(model));
  }
  return models;
}

Status CheckpointReader::make_chunks(std::vector<RankModel> models) {
  // A gate shows in the matrix itself, whatever args call it.
  infer_gated_linear_unit(models[0].chunks[0], state_->tensor_size, &state_->config);
  shapes_ = RankShapes(state_->config, state_->tensor_size, state_->pipeline_size > 1);
  if (is_part_) expert_shapes_ = RankShapes(state_->config, expert_tensor_size_, false);
  state_->virtual_size = static_cast<int64_t>(models[0].chunks.size());
  // Chunks outside, stages inside: this is the order of layers in the model.
  for (int64_t c = 0; c < state_->virtual_size; ++c) {
    for (int64_t p = 0; p < stages(); ++p) {
      Chunk chunk;
      chunk.stage = p;
      chunk.chunk = c;
      for (int64_t t = 0; t < tensor_ranks(); ++t) {
        chunk.by_rank.push_back(std::move(models[file_at(p, t)].chunks[static_cast<size_t>(c)]));
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
    const std::string& file = path(chunk->stage, static_cast<int64_t>(t));
    std::vector<RankEntry> aligned;
    for (const RankEntry& entry : first) {
      const auto found = by_name.find(entry.flat_name);
      if (found == by_name.end()) {
        return make_error(StatusCode::kCorruption,
                          "{}: model: expected {} as on tensor rank 0, found none", file,
                          entry.flat_name);
      }
      const RankEntry& other = *found->second;
      const bool is_parameter = !entry.match.is_extra_state;
      if (is_parameter && other.tensor->shape != entry.tensor->shape) {
        return make_error(StatusCode::kCorruption,
                          "{}: model: {}: expected shape {} as on tensor rank 0, found {}", file,
                          entry.flat_name, shape_text(entry.tensor->shape),
                          shape_text(other.tensor->shape));
      }
      if (is_parameter && other.tensor->dtype != entry.tensor->dtype) {
        return make_error(StatusCode::kCorruption,
                          "{}: model: {}: expected {} as on tensor rank 0, found {}", file,
                          entry.flat_name, dtype_name(entry.tensor->dtype),
                          dtype_name(other.tensor->dtype));
      }
      aligned.push_back(other);
    }
    // A name that another rank has in addition to the first rank's is missing on the first rank.
    if (aligned.size() != chunk->by_rank[t].size()) {
      return make_error(StatusCode::kCorruption,
                        "{}: model: expected {} entries as on tensor rank 0, found {}", file,
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
    // In each chunk layers count from 0 without a hole.
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] != static_cast<int64_t>(i)) {
        return make_error(StatusCode::kCorruption, "{}: model: expected layer {}, found {}",
                          path(chunk.stage, 0), i, layers[i]);
      }
    }
    next += static_cast<int64_t>(layers.size());
  }
  if (is_part_) return number_layers_of_part();
  if (next != state_->config.num_layers) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected {} layers (num_layers in args), found {} in the rank files",
                      state_->folder.folder, state_->config.num_layers, next);
  }
  return Status();
}

/// The numbers follow from the rank's stage, over which args split the layers: from one rank's file
/// alone, the layers before it cannot be counted.
Status CheckpointReader::number_layers_of_part() {
  const TorchFile& file = *state_->files[0].file;
  const megatron::FieldLookup args = [&](std::string_view name) {
    const std::optional<PickleId> id = state_->find_arg(name);
    return id.has_value() ? std::optional(arg_field(file.graph(), *id)) : std::nullopt;
  };
  model::ParallelSizes sizes = {.pipeline_model_parallel_size = state_->pipeline_size,
                                .virtual_pipeline_model_parallel_size = state_->virtual_size};
  megatron::FieldReader fields(args);
  sizes.split.take_fields(fields);
  MEG_RETURN_IF_ERROR(fields.status().with_prefix(file.path()));
  MEG_ASSIGN_OR_RETURN(const model::PipelineLayout layout,
                       model::PipelineLayout::create(state_->config.num_layers, sizes));
  const int64_t stage = state_->files[0].pipeline_rank;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    chunks_[c].first_layer = layout.first_layer(stage, static_cast<int64_t>(c));
  }
  return Status();
}

/// A layer that has experts has all of them, each with the same parameters.
Status CheckpointReader::check_experts(const Chunk& chunk) const {
  if (is_part_) return {};
  std::map<int64_t, std::map<std::string, std::set<int64_t>>> layers;
  // Expert-parallel ranks have been merged before, so one file must have all experts.
  for (const RankEntry& entry : chunk.by_rank[0]) {
    const std::optional<model::ExpertName> name = model::parse_expert_name(entry.flat_name);
    if (!name.has_value() || entry.match.is_extra_state) continue;
    layers[*entry.match.layer][std::string(name->parameter)].insert(name->expert);
  }
  const int64_t experts = state_->config.num_experts.value_or(0);
  for (const auto& [layer, parameters] : layers) {
    for (const auto& [parameter, found] : parameters) {
      const bool is_whole =
          static_cast<int64_t>(found.size()) == experts && *found.rbegin() == experts - 1;
      if (is_whole) continue;
      return make_error(StatusCode::kCorruption,
                        "{}: model: layer {}: expected {} of {} experts (num_experts in args), "
                        "found {}",
                        path(chunk.stage, 0), layer, parameter, experts, found.size());
    }
  }
  return Status();
}

Status CheckpointReader::read_family() {
  // Each name excludes the families that do not spell it so. Extra states and names that all
  // families share say nothing.
  constexpr std::array kFamilies = {model::NameFamily::kLegacy, model::NameFamily::kOld,
                                    model::NameFamily::kFlat, model::NameFamily::kMcoreLocal,
                                    model::NameFamily::kMcoreTransformerEngine};
  std::vector<model::NameFamily> left(kFamilies.begin(), kFamilies.end());
  if (state_->hybrid.has_value()) left = {model::NameFamily::kHybrid};
  for (const Chunk& chunk : chunks_) {
    for (const RankEntry& entry : chunk.by_rank[0]) {
      const std::vector<model::NameFamily>& families = entry.match.families;
      if (entry.match.is_extra_state || families.empty()) continue;
      std::erase_if(left, [&](model::NameFamily family) {
        return std::find(families.begin(), families.end(), family) == families.end();
      });
      if (left.empty()) {
        return make_error(StatusCode::kCorruption,
                          "{}: model: {} belongs to another family of names than those before it",
                          path(chunk.stage, 0), entry.flat_name);
      }
      for (const char* word : {"input_norm.", "post_attention_norm.", "final_norm."}) {
        if (entry.flat_name.find(word) != std::string::npos) state_->norm_spelling_is_short = true;
      }
    }
  }
  // More than one is left where the names in which they differ do not occur: the first of these.
  state_->family = left.front();
  return Status();
}

Status CheckpointReader::read_optimizers() {
  std::vector<std::vector<OptimizedParameter>> parameters(state_->files.size());
  for (Chunk& chunk : chunks_) {
    // Parameters in the order of named_parameters(), which is how optimizers number them: over all
    // chunks of the rank.
    chunk.state_index.assign(chunk.by_rank[0].size(), -1);
    for (int64_t t = 0; t < tensor_ranks(); ++t) {
      auto& own = parameters[file_at(chunk.stage, t)];
      for (size_t e = 0; e < chunk.by_rank[0].size(); ++e) {
        const RankEntry& entry = chunk.by_rank[static_cast<size_t>(t)][e];
        if (!entry.match.has_optimizer_state()) continue;
        chunk.state_index[e] = static_cast<int>(own.size());
        own.push_back(optimized_parameter(entry));
      }
    }
  }
  if (options_.ignore_optimizer) return Status();
  if (state_->folder.has_zero_optimizer) {
    return make_error(StatusCode::kUnsupported,
                      "{}: optimizer: DeepSpeed's ZeRO states (zero_pp_rank_*) are not supported; "
                      "`ignore_optimizer = true` skips them",
                      state_->folder.folder);
  }
  for (size_t i = 0; i < state_->files.size(); ++i) {
    const TorchFile& file = *state_->files[i].file;
    MEG_ASSIGN_OR_RETURN(RankOptimizer read, read_rank_optimizer(file, parameters[i]));
    // A pipeline stage of nothing has no parameters, whose optimizer has no form.
    const bool is_comparable = !parameters[i].empty() && !optimizers_.empty();
    if (is_comparable && (read.layout.form != optimizers_[0].layout.form ||
                          read.layout.has_state != optimizers_[0].layout.has_state)) {
      return make_error(StatusCode::kCorruption, "{}: optimizer: expected the form of {}",
                        file.path(), state_->files[0].file->path());
    }
    optimizers_.push_back(std::move(read));
  }
  merge_optimizer_layouts();
  return Status();
}

void CheckpointReader::merge_optimizer_layouts() {
  // Each rank has groups of its own, whose settings are the same and whose members differ. All are
  // kept, each with the number of its file.
  OptimizerLayout& merged = state_->optimizer;
  const bool is_distributed = merged.is_distributed;
  const std::optional<int64_t> alignment = merged.buffer_alignment;
  merged = optimizers_[0].layout;
  merged.is_distributed = is_distributed;
  merged.buffer_alignment = alignment;
  merged.groups.clear();
  for (size_t i = 0; i < optimizers_.size(); ++i) {
    const OptimizerLayout& rank = optimizers_[i].layout;
    merged.groups_by_first_appearance |= rank.groups_by_first_appearance;
    merged.keeps_empty_groups |= rank.keeps_empty_groups;
    for (ParamGroup group : rank.groups) {
      group.file = static_cast<int>(i);
      merged.groups.push_back(group);
    }
  }
  const TorchFile& first = *state_->files[0].file;
  const std::optional<PickleId> args = first.graph().find(first.root(), "args");
  // core 0.14 brought this field and the empty groups.
  const bool has_field =
      args.has_value() && find_arg(first.graph(), *args, "full_validation").has_value();
  merged.keeps_empty_groups |= has_field && merged.groups_by_first_appearance;
}

// Tensors are views and may repeat bytes: a small file can claim any number of elements.
Status CheckpointReader::check_volume() const {
  uint64_t files = 0, tensors = 0;
  for (const RankFile& rank : state_->files) files += rank.file->size();
  for (const LogicalParameter& parameter : state_->parameters) {
    for (const LogicalTensor& tensor : parameter.tensors) {
      for (const Piece& piece : tensor.pieces)
        tensors += static_cast<uint64_t>(piece.source->bytes());
      for (const Piece& copy : tensor.replicas)
        tensors += static_cast<uint64_t>(copy.source->bytes());
    }
  }
  return check_tensor_bytes(state_->folder.folder, tensors, files);
}

bool CheckpointReader::is_tied_copy(const model::ParameterMatch& match) const {
  return match.placement == model::Placement::kOutput &&
         match.partition == model::Partition::kVocabulary &&
         !state_->config.untie_embeddings_and_output_weights;
}

}  // namespace meg::checkpoint
