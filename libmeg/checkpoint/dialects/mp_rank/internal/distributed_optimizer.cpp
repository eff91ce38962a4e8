#include "libmeg/checkpoint/dialects/mp_rank/internal/distributed_optimizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/flat_state.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/plain_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_optimizer.h"

namespace meg::checkpoint {
namespace {

/// Shows a rank with a distributed optimizer as one with the plain optimizer: flat buffers have no
/// names, so the parameters' places are computed by the rules that the run may have had, and
/// checked against the weights. The result is a composed file whose tensors are views into
/// distrib_optim.pt; no state is read before somebody copies it.
class PlainComposer {
 public:
  PlainComposer(const std::shared_ptr<const TorchFile>& model_file,
                const std::shared_ptr<const TorchFile>& state_file,
                const model::ParameterTable& table, int64_t pipeline_size)
      : model_file_(model_file),
        state_file_(state_file),
        table_(table),
        is_pipeline_(pipeline_size > 1),
        args_(model_file->graph().find(model_file->root(), "args")) {}

  Result<TorchFile> compose() {
    MEG_RETURN_IF_ERROR(check_form());
    MEG_ASSIGN_OR_RETURN(const RankModel model, read_rank_model(*model_file_, table_));
    MEG_ASSIGN_OR_RETURN(root_, draft_.copy(model_file_));
    first_storage_ = draft_.add_storages(state_file_);
    MEG_ASSIGN_OR_RETURN(
        const std::vector<FlatState> states,
        parse_flat_states(
            state_file_->graph(), state_file_->root(),
            [this](PickleId id) { return state_file_->tensor(id); }, state_file_->path()));
    add_parameters(model);
    if (states.size() != buffers_.size()) {
      return make_error(StatusCode::kUnsupported,
                        "{}: expected {} buffers, one for each virtual stage and type of weights, "
                        "found {}",
                        state_file_->path(), buffers_.size(), states.size());
    }
    for (size_t i = 0; i < states.size(); ++i) {
      MEG_RETURN_IF_ERROR(add_states(states[i], buffers_[i]));
    }
    return finish();
  }

 private:
  const PickleGraph& source() const { return model_file_->graph(); }

  bool says(std::string_view name) const {
    const auto id = args_.has_value() ? find_arg(source(), *args_, name) : std::nullopt;
    return id.has_value() && source().as_bool(*id).value_or(false);
  }

  Status check_form() const {
    MEG_ASSIGN_OR_RETURN(const OptimizerForm form, optimizer_form(*model_file_));
    if (form == OptimizerForm::kDistributed) return Status();
    return make_error(StatusCode::kCorruption,
                      "{}: optimizer: expected the groups of a distributed optimizer, whose state "
                      "is in {}, found {}",
                      model_file_->path(), state_file_->path(),
                      form == OptimizerForm::kNone ? "no optimizer" : "another optimizer's state");
  }

  /// Every chunk has a buffer for each type of its weights, in the order of their appearance.
  void add_parameters(const RankModel& model) {
    const bool is_tied = !says("untie_embeddings_and_output_weights");
    for (const std::vector<RankEntry>& chunk : model.chunks) {
      std::map<DType, size_t> buffer_of;
      for (const RankEntry& entry : chunk) {
        if (entry.match.is_extra_state) continue;
        const auto [place, is_new] = buffer_of.try_emplace(entry.tensor->dtype, buffers_.size());
        if (is_new) buffers_.emplace_back();
        const OptimizedParameter seen = optimized_parameter(entry);
        Buffer& buffer = buffers_[place->second];
        buffer.members.push_back(parameters_.size());
        buffer.flat.push_back(
            {.elements = entry.tensor->numel(),
             .is_shared_embedding = seen.is_embedding_or_output && is_pipeline_ && is_tied});
        parameters_.push_back({.flat_name = seen.flat_name,
                               .weight = *entry.tensor,
                               .is_embedding_or_output = seen.is_embedding_or_output,
                               .states = {}});
      }
    }
  }

  struct Buffer {
    std::vector<size_t> members;  // indices of parameters
    std::vector<FlatParameter> flat;
  };

  using Places = std::vector<FlatBuffer::Place>;

  Status add_states(const FlatState& state, const Buffer& buffer) {
    MEG_ASSIGN_OR_RETURN(const Places places, find_places(state, buffer));
    for (size_t i = 0; i < places.size(); ++i) {
      StatefulParameter& parameter = parameters_[buffer.members[i]];
      for (const auto& [kind, tensors] : state.kinds) {
        const TensorView& view = tensors[places[i].bucket];
        parameter.states[kind] = draft_.content().add_tensor(
            first_storage_ + view.storage, parameter.weight.shape, view.offset + places[i].first);
      }
    }
    return Status();
  }

  /// Of the ways in which the parameters fill the buffer the one whose masters are the weights'.
  Result<Places> find_places(const FlatState& state, const Buffer& buffer) const {
    int64_t elements = 0;
    for (const FlatParameter& parameter : buffer.flat) elements += parameter.elements;
    const FlatRun run = FlatRun::of(source(), args_, elements);
    std::string stranger;
    for (Places& places : possible_places(state, buffer.flat, run)) {
      MEG_ASSIGN_OR_RETURN(stranger, first_stranger(state, buffer, places));
      if (stranger.empty()) return std::move(places);
    }
    if (!stranger.empty()) {
      return make_error(StatusCode::kCorruption,
                        "{}: {}: param: expected the fp32 weights of {} in {}, found other numbers",
                        state_file_->path(), state.name, stranger, model_file_->path());
    }
    return make_error(StatusCode::kUnsupported,
                      "{}: {}: expected buckets that the rank's {} parameters of {} elements fill, "
                      "found {} elements",
                      state_file_->path(), state.name, buffer.flat.size(), elements,
                      shape_text(state.lengths));
  }

  /// The name of the first parameter whose master does not fit its weight; "" where all do.
  Result<std::string> first_stranger(const FlatState& state, const Buffer& buffer,
                                     const Places& places) const {
    const std::vector<TensorView>& masters = state.kinds.at("param");
    for (size_t i = 0; i < places.size(); ++i) {
      const StatefulParameter& parameter = parameters_[buffer.members[i]];
      if (parameter.weight.numel() == 0) continue;
      const auto whole = torch_source(state_file_, masters[places[i].bucket]);
      const auto master = part_of(whole, places[i].first, parameter.weight.numel());
      const auto weight = torch_source(model_file_, parameter.weight);
      MEG_ASSIGN_OR_RETURN(const bool fits, is_master_of(*master, *weight));
      if (!fits) return parameter.flat_name;
    }
    return std::string();
  }

  Result<TorchFile> finish() {
    PickleGraph& graph = draft_.graph();
    const PickleId outer = *graph.find(root_, "optimizer");
    const PickleId inner = graph.find(outer, "optimizer").value_or(outer);
    MEG_ASSIGN_OR_RETURN(const PickleId plain, add_plain_optimizer(parameters_, outer, inner,
                                                                   says("apply_wd_to_qk_layernorm"),
                                                                   model_file_->path(), &draft_));
    std::vector<PickleId> pairs(graph.pairs(root_).begin(), graph.pairs(root_).end());
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (graph.as_string(pairs[i]) == "optimizer") pairs[i + 1] = plain;
    }
    draft_.content().root = graph.add_dict(std::move(pairs));
    return draft_.finish(model_file_->path(), model_file_->size() + state_file_->size());
  }

  const std::shared_ptr<const TorchFile>& model_file_;
  const std::shared_ptr<const TorchFile>& state_file_;
  const model::ParameterTable& table_;
  bool is_pipeline_;
  std::optional<PickleId> args_;
  RankDraft draft_;
  PickleId root_ = 0;
  int first_storage_ = 0;
  std::vector<StatefulParameter> parameters_;  // of all chunks
  std::vector<Buffer> buffers_;
};

}  // namespace

Result<TorchFile> with_plain_optimizer(const std::shared_ptr<const TorchFile>& model_file,
                                       const std::shared_ptr<const TorchFile>& state_file,
                                       const model::ParameterTable& table, int64_t pipeline_size) {
  return PlainComposer(model_file, state_file, table, pipeline_size).compose();
}

std::string distrib_optim_path(const std::string& model_file) {
  return (std::filesystem::path(model_file).parent_path() / kDistribOptimFile).string();
}

Status read_distributed_optimizers(const CheckpointFolder& folder,
                                   const model::ParameterTable& table, RankFiles* ranks) {
  std::set<std::string> with_state;
  for (const RankFolder& rank : folder.ranks) {
    if (rank.has_distrib_optim) with_state.insert(rank.file);
  }
  std::error_code ignored;
  const bool is_file = folder.format == CheckpointFormat::kSingleFile;
  if (is_file && std::filesystem::is_regular_file(distrib_optim_path(folder.folder), ignored)) {
    with_state.insert(folder.folder);
  }
  if (with_state.empty()) return Status();
  ranks->has_distributed_optimizer = true;
  // One budget for all ranks, so that many small hostile files get no more than one large one.
  PickleBudget budget(rank_file_bytes(folder));
  std::vector<Status> results(ranks->files.size());
  const auto read = [&](RankFile* rank) -> Status {
    const std::string& path = rank->file->path();
    if (!with_state.contains(path)) {
      return make_error(StatusCode::kNotFound,
                        "{}: expected {} beside it as of other ranks, found no such file", path,
                        kDistribOptimFile);
    }
    MEG_ASSIGN_OR_RETURN(TorchFile state, TorchFile::open(distrib_optim_path(path), &budget));
    MEG_ASSIGN_OR_RETURN(
        TorchFile composed,
        with_plain_optimizer(rank->file, std::make_shared<const TorchFile>(std::move(state)), table,
                             ranks->pipeline_size));
    rank->file = std::make_shared<const TorchFile>(std::move(composed));
    return Status();
  };
  ThreadPool pool(std::min(available_processors(), static_cast<int>(ranks->files.size())));
  for (size_t i = 0; i < ranks->files.size(); ++i) {
    pool.submit([&, i] {
      try {
        results[i] = read(&ranks->files[i]);
      } catch (const std::bad_alloc&) {
        results[i] = make_error(StatusCode::kResourceExhausted, "{}: not enough memory to open it",
                                ranks->files[i].folder_name);
      }
    });
  }
  pool.wait();
  for (const Status& result : results) MEG_RETURN_IF_ERROR(result);
  return Status();
}

}  // namespace meg::checkpoint
