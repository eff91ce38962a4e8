#include "libmeg/checkpoint/convert/save_torch_dist.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"
#include "libmeg/checkpoint/convert/internal/dist_objects.h"
#include "libmeg/checkpoint/convert/internal/dist_values.h"
#include "libmeg/checkpoint/convert/internal/model_layers.h"
#include "libmeg/checkpoint/convert/internal/source_checks.h"
#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/model/expert_names.h"

namespace meg::checkpoint {
namespace {

/// A part of a parameter that is written as one chunk.
struct SavedBox {
  Box of_axes;                          ///< Box of the part that this rank has: see axes_here().
  std::vector<int64_t> offsets, sizes;  ///< In the parameter's dimensions.
};

/// The box of a parameter's axes that the checkpoint has: for one tensor rank of several, its part
/// of the axis over which they are divided.
Box box_here(const LogicalParameter& parameter) {
  const std::vector<Piece>& pieces = parameter.tensors[0].pieces;
  return pieces.size() == 1 ? pieces[0].box : Box::whole(parameter.axes.sizes);
}

/// A rank's gate and up halves are separate in the whole; everything else is one box.
std::vector<SavedBox> saved_boxes(const LogicalParameter& parameter) {
  const Box here = box_here(parameter);
  if (here == Box::whole(parameter.axes.sizes)) {
    return {{here, std::vector<int64_t>(parameter.shape.size()), parameter.shape}};
  }
  const auto axis = static_cast<size_t>(parameter.axes.partition_axis);
  const bool is_gated = parameter.partition == model::Partition::kGated && axis == 1;
  const size_t dimension = is_gated ? 0 : axis;
  std::vector<SavedBox> boxes;
  for (int64_t half = 0; half < (is_gated ? here.sizes[0] : 1); ++half) {
    // clang 14 makes no aggregate of emplace_back's arguments.
    boxes.push_back(
        {Box::whole(here.sizes), std::vector<int64_t>(parameter.shape.size()), parameter.shape});
    SavedBox& box = boxes.back();
    box.offsets[dimension] = here.offsets[axis] + half * parameter.axes.sizes[axis];
    box.sizes[dimension] = here.sizes[axis];
    if (!is_gated) continue;
    box.of_axes.offsets[0] = half;
    box.of_axes.sizes[0] = 1;
  }
  return boxes;
}

/// GPT models are saved under Transformer Engine's names, whatever the implementation of their
/// layers.
model::NameFamily saved_family(const MegatronCheckpoint& checkpoint,
                               const SaveTorchDistOptions& options) {
  const model::NameFamily family = options.names.value_or(checkpoint.family());
  return family == model::NameFamily::kHybrid ? family : model::NameFamily::kMcoreTransformerEngine;
}

class Saver {
 public:
  Saver(const MegatronCheckpoint& checkpoint, const DataParallelPlace& place,
        const DataParallelPlace& of_experts, const SaveTorchDistOptions& options,
        const std::string& folder)
      : checkpoint_(checkpoint),
        place_(place),
        of_experts_(of_experts),
        options_(options),
        naming_(dist_naming(checkpoint, saved_family(checkpoint, options))),
        expert_layers_(layers_with_experts(checkpoint)),
        folder_(folder),
        writer_(folder, rank()) {}

  /// What was written.
  Result<DistMetadata> save() {
    MEG_RETURN_IF_ERROR(check());
    MEG_RETURN_IF_ERROR(add_parameters());
    if (is_first_data_rank()) {
      DistObjects objects(checkpoint_, naming_, &writer_);
      if (is_first_tensor_rank()) MEG_RETURN_IF_ERROR(objects.add_extra_states());
      for (const RankFile& rank : checkpoint_.files()) {
        MEG_RETURN_IF_ERROR(objects.add_rank_state(rank));
      }
    }
    MEG_RETURN_IF_ERROR(run_transfers(transfers_, sinks_, options_.transfer));
    if (rank() == 0) {
      MEG_ASSIGN_OR_RETURN(const TorchFileContent common,
                           common_state(checkpoint_, naming_.family, options_));
      MEG_RETURN_IF_ERROR(write_dist_common(folder_, common));
    }
    return writer_.finish();
  }

  /// Returns the rank among all ranks, of data-parallel ones with the same part of the model in a
  /// row.
  int64_t rank() const {
    const RankFile& first = checkpoint_.files()[0];
    return checkpoint_.file_index(first.tensor_rank, first.pipeline_rank) * place_.size +
           place_.rank;
  }

  uint64_t bytes() const { return writer_.bytes(); }

 private:
  bool is_first_data_rank() const { return place_.rank == 0; }

  bool is_first_tensor_rank() const { return checkpoint_.files()[0].tensor_rank == 0; }

  int64_t layers() const { return checkpoint_.config().num_layers; }

  /// Adds the parameters that this rank writes: the first tensor rank writes copies, and
  /// data-parallel ranks each write a share of about equal size.
  Status add_parameters() {
    for (const bool of_experts : {false, true}) {
      MEG_RETURN_IF_ERROR(add_share(of_experts, of_experts ? of_experts_ : place_));
    }
    return {};
  }

  Status add_share(bool of_experts, const DataParallelPlace& place) {
    std::vector<const LogicalParameter*> parameters;
    int64_t all = 0, before = 0;
    for (const LogicalParameter& parameter : checkpoint_.parameters()) {
      const bool is_expert = model::parse_expert_name(parameter.canonical).has_value();
      if (is_expert != of_experts) continue;
      parameters.push_back(&parameter);
      all += elements_of(parameter);
    }
    for (const LogicalParameter* parameter : parameters) {
      const int64_t elements = elements_of(*parameter);
      // Decided by the number of preceding elements: each rank writes whole parameters, of about
      // equal total size.
      const int64_t writer = before * place.size / std::max<int64_t>(all, 1);
      before += elements;
      // Of experts that are not divided, other tensor ranks have other ones or are other copies.
      const bool is_copy =
          !of_experts && parameter->axes.partition_axis < 0 && !is_first_tensor_rank();
      if (is_copy || writer != place.rank) continue;
      MEG_RETURN_IF_ERROR(add_parameter(*parameter));
    }
    return {};
  }

  int64_t elements_of(const LogicalParameter& parameter) const {
    return box_here(parameter).elements();
  }

  Status check() const {
    const int64_t experts = checkpoint_.config().num_experts.value_or(0);
    const int64_t ranks = options_.expert_model_parallel_size.value_or(1);
    if (ranks < 1 || (ranks > 1 && (experts == 0 || experts % ranks != 0))) {
      return make_error(StatusCode::kInvalidArgument,
                        "expert-parallel size: expected a divisor of the {} experts, found {}",
                        experts, ranks);
    }
    if (options_.keep_optimizer && checkpoint_.optimizer().form == OptimizerForm::kDistributed) {
      return missing_distrib_optim(checkpoint_);
    }
    return {};
  }

  Status add_parameter(const LogicalParameter& parameter) {
    std::optional<std::string> spelled =
        checkpoint_.table().spell(parameter.canonical, naming_.family);
    // Local layers save it by the name that is right before a dense MLP.
    const bool is_apart = naming_.family == model::NameFamily::kHybrid ||
                          model::has_fused_norms(checkpoint_.family());
    if (is_apart && model::is_norm_before_mlp(parameter.canonical) &&
        expert_layers_.contains(parameter.layer.value_or(0))) {
      spelled = parameter.canonical;
    }
    if (const auto expert = model::parse_expert_name(parameter.canonical)) {
      spelled = fmt::format("{}experts.{}", expert->layer_name, expert->parameter);
    }
    if (!spelled.has_value()) {
      return make_error(StatusCode::kUnsupported, "{}: {}: mcore models have no such parameter",
                        checkpoint_.folder().folder, parameter.name);
    }
    const std::string name = naming_.of_layer(*spelled, parameter.layer.value_or(0));
    const size_t weight = transfers_.size();
    for (const LogicalTensor& tensor : parameter.tensors) {
      const bool is_weight = tensor.kind == "weight";
      if (!is_weight && !options_.keep_optimizer) continue;
      // The distributed optimizer's name of masters.
      const bool is_renamed = tensor.kind == "fp32_param" && options_.distributed_optimizer;
      const std::string kind = is_renamed ? "param" : tensor.kind;
      transfers_.push_back(transfer_of(parameter, tensor));
      MEG_RETURN_IF_ERROR(
          add_target(is_weight ? name : fmt::format("optimizer.state.{}.{}", kind, name), parameter,
                     &transfers_.back()));
    }
    // Which has masters of fp32 weights too.
    const bool has_masters =
        parameter.tensors.size() > 1 && options_.keep_optimizer && options_.distributed_optimizer;
    if (!has_masters || parameter.tensor("fp32_param") != nullptr) return {};
    return add_target("optimizer.state.param." + name, parameter, &transfers_[weight]);
  }

  static TensorTransfer transfer_of(const LogicalParameter& parameter,
                                    const LogicalTensor& tensor) {
    const Box here = box_here(parameter);
    TensorTransfer transfer{.name = fmt::format("{} {}", parameter.name, tensor.kind),
                            .axes = here.sizes,
                            .source_extent = here.sizes[0],
                            .target_dtype = tensor.dtype,
                            .sources = tensor.pieces,
                            .targets = {}};
    for (Piece& piece : transfer.sources) {
      for (size_t i = 0; i < here.offsets.size(); ++i) piece.box.offsets[i] -= here.offsets[i];
    }
    return transfer;
  }

  /// One more tensor that the transfer fills.
  Status add_target(const std::string& name, const LogicalParameter& parameter,
                    TensorTransfer* transfer) {
    for (const SavedBox& box : saved_boxes(parameter)) {
      MEG_RETURN_IF_ERROR(add_chunk(name, parameter, box, transfer));
    }
    return {};
  }

  Status add_chunk(const std::string& name, const LogicalParameter& parameter, const SavedBox& box,
                   TensorTransfer* transfer) {
    std::vector<int64_t> shape = parameter.shape, sizes = box.sizes, offsets = box.offsets;
    const auto stack = [&](int64_t count, int64_t place) {
      shape.insert(shape.begin(), count);
      sizes.insert(sizes.begin(), 1);
      offsets.insert(offsets.begin(), place);
    };
    if (const auto expert = model::parse_expert_name(parameter.canonical)) {
      stack(checkpoint_.config().num_experts.value_or(1), expert->expert);
    }
    if (parameter.layer.has_value() && naming_.is_stacked) stack(layers(), *parameter.layer);
    MEG_ASSIGN_OR_RETURN(auto sink,
                         writer_.add_chunk(name, transfer->target_dtype, shape, offsets, sizes));
    transfer->targets.push_back({.sink = static_cast<int>(sinks_.size()), .box = box.of_axes});
    sinks_.push_back(std::move(sink));
    return {};
  }

  const MegatronCheckpoint& checkpoint_;
  DataParallelPlace place_, of_experts_;
  const SaveTorchDistOptions& options_;
  DistNaming naming_;
  std::set<int64_t> expert_layers_;
  std::string folder_;
  DistFolderWriter writer_;
  std::vector<TensorTransfer> transfers_;
  std::vector<std::unique_ptr<TensorSink>> sinks_;
};

}  // namespace

Status write_torch_dist_part(const MegatronCheckpoint& part, const DataParallelPlace& place,
                             const DataParallelPlace& of_experts, const std::string& folder,
                             const SaveTorchDistOptions& options) {
  Saver saver(part, place, of_experts, options, folder);
  MEG_ASSIGN_OR_RETURN(const DistMetadata items, saver.save());
  return write_dist_part(folder, saver.rank(), items);
}

Status complete_torch_dist(const std::string& folder, int64_t ranks) {
  return complete_dist_folder(folder, ranks);
}

Result<SavedTorchDist> save_torch_dist(const MegatronCheckpoint& checkpoint,
                                       const std::string& save_dir,
                                       const SaveTorchDistOptions& options) {
  MEG_RETURN_IF_ERROR(check_save_dir(checkpoint, save_dir));
  if (options.keep_optimizer && options.check_masters) {
    MEG_RETURN_IF_ERROR(check_masters(checkpoint));
  }
  SavedTorchDist saved;
  MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint, options.keep_optimizer, &saved.notes));
  note_drifted_replicas(checkpoint, options.keep_optimizer, &saved.notes);
  saved.notes.insert(saved.notes.end(), checkpoint.notes().begin(), checkpoint.notes().end());
  const std::string name = reshard_folder_name(checkpoint);
  MEG_ASSIGN_OR_RETURN(io::AtomicFolder folder,
                       io::AtomicFolder::create((std::filesystem::path(save_dir) / name).string()));
  Saver saver(checkpoint, {}, {}, options, folder.staging_path());
  MEG_ASSIGN_OR_RETURN(const DistMetadata items, saver.save());
  MEG_RETURN_IF_ERROR(complete_dist_folder(folder.staging_path(), items));
  saved.bytes = saver.bytes();
  MEG_RETURN_IF_ERROR(copy_tokenizer_files(checkpoint.folder(),
                                           join_path(folder.staging_path(), kTokenizerFolder)));
  MEG_RETURN_IF_ERROR(folder.commit());
  const bool is_release = checkpoint.folder().is_release;
  const std::optional<int64_t> iteration = checkpoint.folder().iteration.has_value()
                                               ? checkpoint.folder().iteration
                                               : checkpoint.iteration();
  MEG_RETURN_IF_ERROR(write_tracker(save_dir, is_release ? std::nullopt : iteration));
  return saved;
}

}  // namespace meg::checkpoint
