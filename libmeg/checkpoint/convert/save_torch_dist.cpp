#include "libmeg/checkpoint/convert/save_torch_dist.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"
#include "libmeg/checkpoint/convert/internal/dist_values.h"
#include "libmeg/checkpoint/convert/internal/source_checks.h"
#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/model/expert_names.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kLayerNumber = ".{}.";

/// The name under which torch_dist stacks all layers: without the layer's number.
std::string stacked_name(std::string name) {
  const size_t at = name.find(kLayerNumber);
  if (at != name.npos) name.replace(at, kLayerNumber.size(), ".");
  return name;
}

class Saver {
 public:
  Saver(const MegatronCheckpoint& checkpoint, const SaveTorchDistOptions& options,
        const std::string& folder)
      : checkpoint_(checkpoint), options_(options), writer_(folder) {}

  Result<uint64_t> save() {
    MEG_RETURN_IF_ERROR(check());
    for (const LogicalParameter& parameter : checkpoint_.parameters()) {
      MEG_RETURN_IF_ERROR(add_parameter(parameter));
    }
    MEG_RETURN_IF_ERROR(add_extra_states());
    for (const RankFile& rank : checkpoint_.files()) MEG_RETURN_IF_ERROR(add_rank_state(rank));
    MEG_RETURN_IF_ERROR(run_transfers(transfers_, sinks_, options_.transfer));
    MEG_ASSIGN_OR_RETURN(const TorchFileContent common,
                         common_state(checkpoint_, options_.keep_optimizer));
    MEG_RETURN_IF_ERROR(writer_.finish(common));
    return writer_.bytes();
  }

 private:
  int64_t layers() const { return checkpoint_.config().num_layers; }

  bool has_experts() const { return checkpoint_.config().num_experts.has_value(); }

  Status check() const {
    const std::string& path = checkpoint_.folder().folder;
    if (options_.keep_optimizer && checkpoint_.optimizer().form == OptimizerForm::kDistributed) {
      return missing_distrib_optim(checkpoint_);
    }
    std::map<std::string, std::set<int64_t>> found;
    for (const LogicalParameter& parameter : checkpoint_.parameters()) {
      if (parameter.layer.has_value()) found[parameter.canonical].insert(*parameter.layer);
    }
    for (const auto& [name, numbers] : found) {
      if (static_cast<int64_t>(numbers.size()) == layers()) continue;
      return make_error(StatusCode::kUnsupported,
                        "{}: {}: expected in all {} layers, found in {}: layers that differ cannot "
                        "be stacked",
                        path, name, layers(), numbers.size());
    }
    return {};
  }

  Status add_parameter(const LogicalParameter& parameter) {
    std::optional<std::string> spelled =
        checkpoint_.table().spell(parameter.canonical, model::NameFamily::kMcoreTransformerEngine);
    const bool is_fused = checkpoint_.family() != model::NameFamily::kMcoreTransformerEngine;
    // Local layers save it by the name that is right before a dense MLP.
    if (has_experts() && !is_fused && model::is_norm_before_mlp(parameter.canonical)) {
      spelled = parameter.canonical;
    }
    if (const auto expert = model::parse_expert_name(parameter.canonical)) {
      spelled = fmt::format("{}experts.{}", expert->layer_name, expert->parameter);
    }
    if (!spelled.has_value()) {
      return make_error(StatusCode::kUnsupported, "{}: {}: mcore models have no such parameter",
                        checkpoint_.folder().folder, parameter.name);
    }
    const std::string name = stacked_name(*spelled);
    const size_t weight = transfers_.size();
    for (const LogicalTensor& tensor : parameter.tensors) {
      const bool is_weight = tensor.kind == "weight";
      if (!is_weight && !options_.keep_optimizer) continue;
      // As the distributed optimizer calls the masters.
      const std::string kind = tensor.kind == "fp32_param" ? "param" : tensor.kind;
      transfers_.push_back(transfer_of(parameter, tensor));
      MEG_RETURN_IF_ERROR(
          add_target(is_weight ? name : fmt::format("optimizer.state.{}.{}", kind, name), parameter,
                     &transfers_.back()));
    }
    const bool is_trained = parameter.tensors.size() > 1 && options_.keep_optimizer;
    if (!is_trained || parameter.tensor("fp32_param") != nullptr) return {};
    return add_target("optimizer.state.param." + name, parameter, &transfers_[weight]);
  }

  static TensorTransfer transfer_of(const LogicalParameter& parameter,
                                    const LogicalTensor& tensor) {
    return {.name = fmt::format("{} {}", parameter.name, tensor.kind),
            .axes = parameter.axes.sizes,
            .source_extent = parameter.axes.sizes[0],
            .target_dtype = tensor.dtype,
            .sources = tensor.pieces,
            .targets = {}};
  }

  /// One more tensor that the transfer fills.
  Status add_target(const std::string& name, const LogicalParameter& parameter,
                    TensorTransfer* transfer) {
    std::vector<int64_t> shape = parameter.shape, sizes = parameter.shape;
    std::vector<int64_t> offsets(shape.size());
    const auto stack = [&](int64_t count, int64_t place) {
      shape.insert(shape.begin(), count);
      sizes.insert(sizes.begin(), 1);
      offsets.insert(offsets.begin(), place);
    };
    if (const auto expert = model::parse_expert_name(parameter.canonical)) {
      stack(checkpoint_.config().num_experts.value_or(1), expert->expert);
    }
    if (parameter.layer.has_value()) stack(layers(), *parameter.layer);
    MEG_ASSIGN_OR_RETURN(auto sink,
                         writer_.add_chunk(name, transfer->target_dtype, shape, offsets, sizes));
    transfer->targets.push_back(
        {.sink = static_cast<int>(sinks_.size()), .box = Box::whole(transfer->axes)});
    sinks_.push_back(std::move(sink));
    return {};
  }

  /// Of the modules whose readers ask for it, as the source has it, or None.
  Status add_extra_states() {
    std::map<std::pair<std::string, int64_t>, const ExtraState*> known;
    for (const ExtraState& extra : checkpoint_.extra_states()) {
      const std::optional<model::ParameterMatch> match = checkpoint_.table().match(
          extra.layer.has_value() ? model::with_layer(extra.spelling, 0) : extra.spelling);
      if (match.has_value()) known[{match->canonical, extra.layer.value_or(0)}] = &extra;
    }
    for (const std::string& module :
         checkpoint_.table().extra_state_modules(model::NameFamily::kMcoreTransformerEngine)) {
      // Megatron reads experts without theirs.
      const bool is_dense_mlp = module.find(".mlp.linear_") != module.npos;
      if (module.find(".linear_") == module.npos || (has_experts() && is_dense_mlp)) continue;
      const std::string canonical = module + "._extra_state";
      for (int64_t layer = 0; layer < layers(); ++layer) {
        const auto found = known.find({canonical, layer});
        const ExtraState* extra = found == known.end() ? nullptr : found->second;
        const TorchFile* file = nullptr;
        if (extra != nullptr) {
          file = checkpoint_.files()[static_cast<size_t>(checkpoint_.file_index(0, extra->stage))]
                     .file.get();
        }
        MEG_RETURN_IF_ERROR(
            add_object(fmt::format("{}/shard_{}_{}", stacked_name(canonical), layer, layers()),
                       file, extra == nullptr ? 0 : extra->nodes[0]));
      }
    }
    return {};
  }

  /// What every model-parallel rank has for itself.
  Status add_rank_state(const RankFile& rank) {
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
  Status add_old_rng(const std::string& name, const TorchFile& file) {
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
  Status add_object(const std::string& name, const TorchFile* file, PickleId node) {
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

  const MegatronCheckpoint& checkpoint_;
  const SaveTorchDistOptions& options_;
  DistFolderWriter writer_;
  std::vector<TensorTransfer> transfers_;
  std::vector<std::unique_ptr<TensorSink>> sinks_;
};

}  // namespace

Result<uint64_t> write_torch_dist(const MegatronCheckpoint& checkpoint, const std::string& folder,
                                  const SaveTorchDistOptions& options) {
  return Saver(checkpoint, options, folder).save();
}

Result<SavedTorchDist> save_torch_dist(const MegatronCheckpoint& checkpoint,
                                       const std::string& save_dir,
                                       const SaveTorchDistOptions& options) {
  MEG_RETURN_IF_ERROR(check_save_dir(checkpoint, save_dir));
  SavedTorchDist saved;
  MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint, options.keep_optimizer, &saved.notes));
  note_drifted_replicas(checkpoint, options.keep_optimizer, &saved.notes);
  const std::string name = reshard_folder_name(checkpoint);
  MEG_ASSIGN_OR_RETURN(io::AtomicFolder folder,
                       io::AtomicFolder::create((std::filesystem::path(save_dir) / name).string()));
  MEG_ASSIGN_OR_RETURN(saved.bytes, write_torch_dist(checkpoint, folder.staging_path(), options));
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
