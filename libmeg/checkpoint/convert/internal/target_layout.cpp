#include "libmeg/checkpoint/convert/internal/target_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "libmeg/checkpoint/convert/internal/target_names.h"
#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"
#include "libmeg/model/expert_names.h"
#include "libmeg/model/pipeline_layout.h"
#include "libmeg/model/vocab_padding.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kWordEmbeddings = "embedding.word_embeddings.weight";

/// The layers of a chunk: [first, first + count).
struct LayerRange {
  int64_t first = 0, count = 0;
};

using LayerRanges = std::vector<std::vector<LayerRange>>;  // by stage, by chunk

LayerRanges ranges_of(const model::PipelineLayout& layout) {
  LayerRanges ranges(static_cast<size_t>(layout.stages()));
  for (int64_t stage = 0; stage < layout.stages(); ++stage) {
    for (int64_t chunk = 0; chunk < layout.chunks(); ++chunk) {
      ranges[static_cast<size_t>(stage)].push_back(
          {layout.first_layer(stage, chunk), layout.layers(stage, chunk)});
    }
  }
  return ranges;
}

LayerRanges source_ranges(const MegatronCheckpoint& checkpoint) {
  LayerRanges ranges(static_cast<size_t>(checkpoint.pipeline_model_parallel_size()));
  for (auto& stage : ranges) {
    stage.resize(static_cast<size_t>(checkpoint.virtual_pipeline_model_parallel_size()));
  }
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    if (!parameter.layer.has_value()) continue;
    LayerRange& range =
        ranges[static_cast<size_t>(parameter.stage)][static_cast<size_t>(parameter.chunk)];
    const int64_t last = std::max(range.first + range.count - 1, *parameter.layer);
    // Parameters come in the order of names, so a layer's number may be below those seen before.
    range.first = range.count == 0 ? *parameter.layer : std::min(range.first, *parameter.layer);
    range.count = range.count == 0 ? 1 : last - range.first + 1;
  }
  return ranges;
}

/// Decides what each rank of the target holds, from the cheapest check to the dearest: sizes, rows
/// of the vocabulary, layers of stages, names. Nothing of tensors or files is touched, so every
/// refusal comes before the first output.
class LayoutBuilder {
 public:
  LayoutBuilder(const MegatronCheckpoint& checkpoint, const ReshardOptions& options)
      : checkpoint_(checkpoint), options_(options) {}

  Result<TargetLayout> build() {
    layout_.pipeline_model_parallel_size = options_.pipeline_model_parallel_size;
    layout_.virtual_pipeline_model_parallel_size = options_.virtual_pipeline_model_parallel_size;
    MEG_RETURN_IF_ERROR(check_sizes());
    MEG_RETURN_IF_ERROR(share_experts());
    MEG_RETURN_IF_ERROR(choose_vocab_rows());
    MEG_RETURN_IF_ERROR(choose_layers());
    MEG_ASSIGN_OR_RETURN(TargetNames names, TargetNames::choose(checkpoint_, options_.names));
    layout_.family = names.family();
    layout_.names_kept = names.kept();
    MEG_RETURN_IF_ERROR(check_query_groups());
    for (int64_t stage = 0; stage < layout_.pipeline_model_parallel_size; ++stage) {
      TargetStage target;
      target.source_stage = source_stage(stage);
      for (int64_t chunk = 0; chunk < layout_.virtual_pipeline_model_parallel_size; ++chunk) {
        MEG_ASSIGN_OR_RETURN(std::vector<TargetEntry> entries,
                             names.entries(chunk_content(stage, chunk)));
        target.chunks.push_back(std::move(entries));
      }
      layout_.stages.push_back(std::move(target));
    }
    MEG_RETURN_IF_ERROR(check_shapes());
    MEG_RETURN_IF_ERROR(choose_optimizer());
    return std::move(layout_);
  }

 private:
  Status choose_optimizer() {
    const OptimizerLayout& source = checkpoint_.optimizer();
    const std::optional<int64_t> size = int_arg(checkpoint_, "data_parallel_size");
    layout_.data_parallel_size =
        options_.data_parallel_size.value_or(std::max<int64_t>(size.value_or(1), 1));
    // Expert-parallel ranks are data-parallel ones, or tensor-parallel ones where experts are
    // divided over fewer of these.
    if (layout_.experts_per_rank > 0 &&
        layout_.data_parallel_size % layout_.ranks.files_of_tensor_rank() != 0) {
      layout_.data_parallel_size = layout_.ranks.files_of_tensor_rank();
    }
    const bool has_optimizer = options_.keep_optimizer && source.form != OptimizerForm::kNone;
    if (!has_optimizer && options_.distributed_optimizer.has_value()) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected an optimizer to write in another form, found none",
                        checkpoint_.folder().folder);
    }
    if (!has_optimizer) return Status();
    layout_.has_distributed_optimizer =
        options_.distributed_optimizer.value_or(source.is_distributed);
    if (!layout_.has_distributed_optimizer) return Status();
    if (options_.params_dtype.has_value()) {
      return make_error(
          StatusCode::kInvalidArgument,
          "target: expected weights that are the rounded masters of the distributed optimizer, "
          "found another type for them: omit the optimizer or write the plain one");
    }
    // The distributed optimizer's file holds moments for every element; there are none to write,
    // and zeros would claim a step that never was.
    if (source.has_state) return Status();
    return make_error(StatusCode::kUnsupported,
                      "{}: optimizer: expected moments for a distributed optimizer, found it saved "
                      "before its first step; write the plain one",
                      checkpoint_.folder().folder);
  }

  Status check_sizes() const {
    if (options_.tensor_model_parallel_size < 1 || layout_.pipeline_model_parallel_size < 1 ||
        layout_.virtual_pipeline_model_parallel_size < 1) {
      return make_error(StatusCode::kInvalidArgument,
                        "target: expected parallel sizes above 0, found tensor {}, pipeline {}, "
                        "virtual pipeline {}",
                        options_.tensor_model_parallel_size, layout_.pipeline_model_parallel_size,
                        layout_.virtual_pipeline_model_parallel_size);
    }
    if (layout_.virtual_pipeline_model_parallel_size > 1 &&
        layout_.pipeline_model_parallel_size == 1) {
      return make_error(StatusCode::kInvalidArgument,
                        "target: virtual pipeline stages need a pipeline-parallel size above 1");
    }
    return checkpoint_.config().check_tensor_parallel_size(options_.tensor_model_parallel_size);
  }

  Status share_experts() {
    const int64_t experts = checkpoint_.config().num_experts.value_or(0);
    const int64_t ranks = options_.expert_model_parallel_size;
    if (ranks < 1 || (ranks > 1 && (experts == 0 || experts % ranks != 0))) {
      return make_error(StatusCode::kInvalidArgument,
                        "expert-parallel size: expected a divisor of the {} experts, found {}",
                        experts, ranks);
    }
    layout_.experts_per_rank = experts / ranks;
    MEG_ASSIGN_OR_RETURN(const int64_t expert_tensor_size, choose_expert_tensor_size());
    Result<RankGrid> grid =
        RankGrid::create(options_.tensor_model_parallel_size, ranks, expert_tensor_size);
    if (!grid.has_value()) return grid.error().with_prefix("target");
    layout_.ranks = *grid;
    return Status();
  }

  Result<int64_t> choose_expert_tensor_size() const {
    const int64_t tensor_size = options_.tensor_model_parallel_size;
    const std::optional<int64_t> given = options_.expert_tensor_parallel_size;
    if (layout_.experts_per_rank == 0) {
      // 1 is the default of Megatron's tool, which is passed for models without experts too.
      if (given.value_or(1) == 1 || given == tensor_size) return tensor_size;
      return make_error(StatusCode::kInvalidArgument,
                        "expert tensor-parallel size {}: expected experts, found a model without",
                        *given);
    }
    if (given.has_value()) return *given;
    // A run's own size is kept with its other sizes if rank files can have it.
    const std::optional<int64_t> own = int_arg(checkpoint_, "expert_tensor_parallel_size");
    const bool is_kept =
        own.has_value() && checkpoint_.tensor_model_parallel_size() == tensor_size &&
        checkpoint_.expert_model_parallel_size() == options_.expert_model_parallel_size &&
        RankGrid::create(tensor_size, options_.expert_model_parallel_size, *own).has_value();
    return is_kept ? *own : tensor_size;
  }

  /// Legacy models never shared the rows of a group.
  Status check_query_groups() const {
    if (!shares_query_groups(checkpoint_, layout_) || model::is_mcore(layout_.family))
      return Status();
    return make_error(StatusCode::kUnsupported,
                      "tensor-parallel size {} over {} query groups: expected mcore names, as core "
                      "0.16 and later read it, found {} names",
                      layout_.ranks.tensor_size(), checkpoint_.config().num_query_groups,
                      model::name_family_text(layout_.family));
  }

  Status choose_vocab_rows() {
    const auto parameters = checkpoint_.parameters();
    const auto embedding =
        std::find_if(parameters.begin(), parameters.end(),
                     [](const LogicalParameter& p) { return p.canonical == kWordEmbeddings; });
    if (embedding == parameters.end() || embedding->shape.empty()) {
      return make_error(StatusCode::kNotFound, "{}: expected {} among the parameters, found none",
                        checkpoint_.folder().folder, kWordEmbeddings);
    }
    embedding_ = &*embedding;
    const int64_t rows = embedding->shape[0];
    const int64_t tensor_size = layout_.ranks.tensor_size();
    layout_.source_vocab_rows = rows;
    layout_.target_vocab_rows = rows;
    layout_.true_vocab_size = options_.true_vocab_size;
    if (options_.true_vocab_size.has_value()) {
      MEG_RETURN_IF_ERROR(check_true_vocab_size(checkpoint_, *options_.true_vocab_size, rows));
    } else if (tensor_size != checkpoint_.tensor_model_parallel_size()) {
      // A run of the new size pads the vocabulary to another number of rows.
      layout_.true_vocab_size = unpadded_vocab_size(checkpoint_, rows);
    }
    if (layout_.true_vocab_size.has_value()) {
      MEG_ASSIGN_OR_RETURN(
          layout_.target_vocab_rows,
          model::padded_vocab_size(*layout_.true_vocab_size,
                                   checkpoint_.config().make_vocab_size_divisible_by, tensor_size));
    } else if (rows % tensor_size != 0) {
      std::string sizes;
      for (int64_t size = 1; size <= 64; ++size) {
        if (rows % size == 0) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size);
      }
      return make_error(StatusCode::kInvalidArgument,
                        "tensor-parallel size {} does not divide the {} rows of the embedding; "
                        "sizes that do: {}; with `true_vocab_size` the table is padded again",
                        tensor_size, rows, sizes);
    }
    return Status();
  }

  /// Where the pipeline stays as it is the source's split is kept, even or not.
  Status choose_layers() {
    const int64_t stages = layout_.pipeline_model_parallel_size;
    const int64_t chunks = layout_.virtual_pipeline_model_parallel_size;
    layout_.pipeline_kept = stages == checkpoint_.pipeline_model_parallel_size() &&
                            chunks == checkpoint_.virtual_pipeline_model_parallel_size();
    if (layout_.pipeline_kept) {
      ranges_ = source_ranges(checkpoint_);
      return Status();
    }
    MEG_ASSIGN_OR_RETURN(
        const model::PipelineLayout layout,
        model::PipelineLayout::create(checkpoint_.config().num_layers,
                                      {.pipeline_model_parallel_size = stages,
                                       .virtual_pipeline_model_parallel_size = chunks}));
    ranges_ = ranges_of(layout);
    return Status();
  }

  int64_t source_stage(int64_t stage) const {
    if (layout_.pipeline_model_parallel_size == checkpoint_.pipeline_model_parallel_size()) {
      return stage;
    }
    // The stage that had this one's first layer is the closest to the state that it resumes from.
    const int64_t first = ranges_[static_cast<size_t>(stage)][0].first;
    for (const LogicalParameter& parameter : checkpoint_.parameters()) {
      if (parameter.layer == first) return parameter.stage;
    }
    return 0;
  }

  ChunkContent chunk_content(int64_t stage, int64_t chunk) const {
    const LayerRange& range = ranges_[static_cast<size_t>(stage)][static_cast<size_t>(chunk)];
    const int64_t stages = layout_.pipeline_model_parallel_size;
    ChunkContent content;
    content.first_layer = range.first;
    content.layer_count = range.count;
    content.is_first = stage == 0 && chunk == 0;
    content.is_last =
        stage == stages - 1 && chunk == layout_.virtual_pipeline_model_parallel_size - 1;
    const bool tied = !checkpoint_.config().untie_embeddings_and_output_weights;
    // On one stage both are the same tensor, which Megatron saves once.
    if (content.is_last && tied && stages > 1) content.tied_embedding = embedding_;
    return content;
  }

  Status check_shapes() const {
    for (const LogicalParameter& parameter : checkpoint_.parameters()) {
      MEG_RETURN_IF_ERROR(layout_.shape(parameter).status());
    }
    return Status();
  }

  const MegatronCheckpoint& checkpoint_;
  const ReshardOptions& options_;
  TargetLayout layout_;
  const LogicalParameter* embedding_ = nullptr;
  LayerRanges ranges_;
};

}  // namespace

bool shares_query_groups(const MegatronCheckpoint& checkpoint, const TargetLayout& layout) {
  return checkpoint.config().num_query_groups % layout.ranks.tensor_size() != 0;
}

std::optional<int64_t> int_arg(const MegatronCheckpoint& checkpoint, std::string_view name) {
  const std::optional<megatron::FieldValue> value = checkpoint.arg(name);
  const int64_t* number = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
  return number == nullptr ? std::nullopt : std::optional(*number);
}

bool is_of_expert(const LogicalParameter& parameter) {
  return model::parse_expert_name(parameter.canonical).has_value();
}

int64_t TargetLayout::tensor_size(const LogicalParameter& parameter) const {
  return is_of_expert(parameter) ? ranks.expert_tensor_size() : ranks.tensor_size();
}

int64_t TargetLayout::cut_extent(const LogicalParameter& parameter) const {
  if (parameter.axes.partition_axis < 0) return 0;
  const int64_t extent = parameter.axes.sizes[static_cast<size_t>(parameter.axes.partition_axis)];
  // Only the embedding and the output layer with the padded rows change; another parameter that is
  // cut like the vocabulary keeps its size.
  const bool is_table =
      parameter.partition == model::Partition::kVocabulary && extent == source_vocab_rows;
  return is_table ? target_vocab_rows : extent;
}

Result<std::vector<int64_t>> TargetLayout::shape(const LogicalParameter& parameter) const {
  if (parameter.axes.partition_axis < 0) return parameter.shape;
  const int64_t extent = cut_extent(parameter), size = tensor_size(parameter);
  if (extent % size != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: {}tensor-parallel size {} does not divide its {} parts", parameter.name,
                      is_of_expert(parameter) ? "expert " : "", size, extent);
  }
  std::vector<int64_t> merged = parameter.shape;
  if (parameter.partition == model::Partition::kVocabulary) merged[0] = extent;
  Result<std::vector<int64_t>> shard =
      model::shard_shape(parameter.partition, std::move(merged), size);
  if (!shard.has_value()) return shard.error().with_prefix(parameter.name);
  return shard;
}

Result<TargetLayout> lay_out_target(const MegatronCheckpoint& checkpoint,
                                    const ReshardOptions& options) {
  return LayoutBuilder(checkpoint, options).build();
}

}  // namespace meg::checkpoint
