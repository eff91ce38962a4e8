#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/distributed_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/expert_optimizers.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/plain_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"

namespace meg::checkpoint {
namespace {

using File = std::shared_ptr<const TorchFile>;

/// Presents a rank with a distributed optimizer as one with the plain optimizer. The result is a
/// composed file whose tensors are views into distrib_optim.pt; state is only read when it is
/// copied. For one of several expert-parallel ranks, this applies to both optimizers, the one for
/// shared parameters and the one for its own experts.
class PlainComposer {
 public:
  PlainComposer(const File& model_file, const model::ParameterTable& table, int64_t pipeline_size)
      : model_file_(model_file),
        table_(table),
        is_pipeline_(pipeline_size > 1),
        args_(model_file->graph().find(model_file->root(), "args")) {}

  Result<PlainRank> compose(const File& state_file, const File& shared_file) {
    MEG_RETURN_IF_ERROR(find_optimizers(*state_file));
    MEG_ASSIGN_OR_RETURN(model_, read_rank_model(*model_file_, table_));
    MEG_ASSIGN_OR_RETURN(root_, draft_.copy(model_file_));
    const PickleId copied = *draft_.graph().find(root_, "optimizer");
    PickleId plain = 0;
    if (is_pair()) {
      // A copy: the graph's nodes move while it grows.
      // The pair that expert-parallel ranks have: for what all ranks hold alike, then for the
      // rank's own experts.
      const std::vector<PickleId> both = draft_.graph().node(copied).children;
      MEG_ASSIGN_OR_RETURN(const PickleId shared, add_part(shared_file, Part::kShared, both[0]));
      MEG_ASSIGN_OR_RETURN(const PickleId experts, add_part(state_file, Part::kExperts, both[1]));
      plain = draft_.graph().add_list({shared, experts});
    } else {
      MEG_ASSIGN_OR_RETURN(plain, add_part(state_file, Part::kAll, copied));
    }
    MEG_ASSIGN_OR_RETURN(TorchFile file, finish(plain, state_file->size()));
    return PlainRank{std::move(file), alignment_};
  }

 private:
  /// The parameters that an optimizer is for.
  enum class Part { kShared, kExperts, kAll };

  const PickleGraph& source() const { return model_file_->graph(); }

  bool says(std::string_view name) const {
    const auto id = args_.has_value() ? find_arg(source(), *args_, name) : std::nullopt;
    return id.has_value() && source().as_bool(*id).value_or(false);
  }

  bool is_pair() const { return optimizers_.size() > 1; }

  Status find_optimizers(const TorchFile& state_file) {
    const std::optional<PickleId> found = source().find(model_file_->root(), "optimizer");
    if (found.has_value()) {
      const PickleNode& node = source().node(*found);
      optimizers_ = is_optimizer_pair(node) ? node.children : std::vector{*found};
    }
    for (const PickleId optimizer : optimizers_) {
      MEG_ASSIGN_OR_RETURN(const OptimizerForm form, optimizer_form(*model_file_, optimizer));
      if (form != OptimizerForm::kDistributed) return no_groups(state_file, form);
    }
    return optimizers_.empty() ? no_groups(state_file, OptimizerForm::kNone) : Status();
  }

  Status no_groups(const TorchFile& state_file, OptimizerForm form) const {
    return make_error(StatusCode::kCorruption,
                      "{}: optimizer: expected the groups of a distributed optimizer, whose state "
                      "is in {}, found {}",
                      model_file_->path(), state_file.path(),
                      form == OptimizerForm::kNone ? "no optimizer" : "another optimizer's state");
  }

  /// The buffers of a part of a pair, or of the only optimizer.
  Result<std::vector<FlatState>> read_states(const File& file, Part part) const {
    PickleId root = file->root();
    const PickleNode& node = file->graph().node(root);
    if (part != Part::kAll) {
      if (!is_optimizer_pair(node)) {
        return make_error(StatusCode::kCorruption,
                          "{}: expected the buffers of two optimizers, that of experts last, "
                          "found {}",
                          file->path(), file->graph().describe(root, 100));
      }
      root = node.children[part == Part::kShared ? 0 : 1];
    }
    const auto tensor = [&file](PickleId id) -> std::shared_ptr<const TensorSource> {
      const TensorView* view = file->tensor(id);
      return view == nullptr || !view->is_contiguous() ? nullptr : torch_source(file, *view);
    };
    return parse_flat_states(file->graph(), root, tensor, file->path());
  }

  bool is_in(const RankEntry& entry, Part part) const {
    if (!entry.match.has_optimizer_state()) return false;
    return part == Part::kAll || entry.match.expert.has_value() == (part == Part::kExperts);
  }

  /// copied: the optimizer's node in the draft; the plain one's.
  Result<PickleId> add_part(const File& file, Part part, PickleId copied) {
    const bool is_tied = !says("untie_embeddings_and_output_weights");
    std::vector<StatefulParameter> parameters;
    std::vector<std::vector<BufferedParameter>> chunks;
    for (const std::vector<RankEntry>& chunk : model_.chunks) {
      std::vector<BufferedParameter>& buffered = chunks.emplace_back();
      for (const RankEntry& entry : chunk) {
        if (!is_in(entry, part)) continue;
        const OptimizedParameter seen = optimized_parameter(entry);
        // Only with a pipeline are both on stages of their own; only tied ones are shared.
        buffered.push_back(
            {.name = seen.flat_name,
             .weight = torch_source(model_file_, *entry.tensor),
             .is_shared_embedding = seen.is_embedding_or_output && is_pipeline_ && is_tied});
        parameters.push_back({.flat_name = seen.flat_name,
                              .weight = *entry.tensor,
                              .is_embedding_or_output = seen.is_embedding_or_output,
                              .states = {}});
      }
    }
    FlatRun run = FlatRun::of(source(), args_);
    // Experts are replicated over fewer ranks, so their buffers were padded for fewer.
    if (part == Part::kExperts && args_.has_value()) {
      const auto size = [&](std::string_view name) { return size_arg(source(), *args_, name); };
      const int64_t tensor = size("tensor_model_parallel_size").value_or(1);
      run = run.of_experts(tensor, size("expert_tensor_parallel_size").value_or(tensor),
                           size("expert_model_parallel_size").value_or(1));
    }
    MEG_ASSIGN_OR_RETURN(const std::vector<FlatState> buffers, read_states(file, part));
    MEG_ASSIGN_OR_RETURN(const CutStates states,
                         cut_flat_states(buffers, chunks, run, file->path()));
    if (states.alignment.has_value()) alignment_ = states.alignment;
    for (const auto& [kind, sources] : states.kinds) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        parameters[i].states[kind] = draft_.add_tensor(sources[i], parameters[i].weight.shape);
      }
    }
    const PickleId inner = draft_.graph().find(copied, "optimizer").value_or(copied);
    return add_plain_optimizer(parameters, copied, inner, says("apply_wd_to_qk_layernorm"),
                               model_file_->path(), &draft_);
  }

  Result<TorchFile> finish(PickleId plain, uint64_t state_bytes) {
    PickleGraph& graph = draft_.graph();
    std::vector<PickleId> pairs(graph.pairs(root_).begin(), graph.pairs(root_).end());
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (graph.as_string(pairs[i]) == "optimizer") pairs[i + 1] = plain;
    }
    draft_.content().root = graph.add_dict(std::move(pairs));
    return draft_.finish(model_file_->path(), model_file_->size() + state_bytes);
  }

  const File& model_file_;
  const model::ParameterTable& table_;
  bool is_pipeline_;
  std::optional<PickleId> args_;
  std::vector<PickleId> optimizers_;  // in the model file
  RankModel model_;
  RankDraft draft_;
  PickleId root_ = 0;
  std::optional<int64_t> alignment_;
};

/// Runs make(i) for all files at once, since reading pickles is work for the processor; the first
/// error.
Status for_each_file(size_t count, const std::vector<RankFolder>& ranks,
                     const std::function<Status(size_t)>& make) {
  std::vector<Status> results(count);
  ThreadPool pool(std::min(available_processors(), static_cast<int>(count)));
  for (size_t i = 0; i < count; ++i) {
    pool.submit([&, i] {
      try {
        results[i] = make(i);
      } catch (const std::bad_alloc&) {
        results[i] = make_error(StatusCode::kResourceExhausted, "{}: not enough memory to open it",
                                ranks[i].name);
      }
    });
  }
  pool.wait();
  for (const Status& result : results) MEG_RETURN_IF_ERROR(result);
  return Status();
}

}  // namespace

Result<PlainRank> with_plain_optimizer(const File& model_file, const File& state_file,
                                       const File& shared_file, const model::ParameterTable& table,
                                       int64_t pipeline_size) {
  return PlainComposer(model_file, table, pipeline_size).compose(state_file, shared_file);
}

std::string distrib_optim_path(const std::string& model_file) {
  return (std::filesystem::path(model_file).parent_path() / kDistribOptimFile).string();
}

Result<DistributedOptimizers> read_distributed_optimizers(
    const std::vector<RankFolder>& ranks, const model::ParameterTable& table, int64_t pipeline_size,
    int64_t files_of_tensor_rank, const TorchFileOptions& options, std::vector<File>* files) {
  const auto has_state = [](const RankFolder& rank) { return rank.has_distrib_optim; };
  if (std::none_of(ranks.begin(), ranks.end(), has_state)) return DistributedOptimizers();
  DistributedOptimizers found;
  std::vector<File>& states = found.files;
  states.resize(ranks.size());
  std::vector<std::optional<int64_t>> alignments(ranks.size());
  const auto open = [&](size_t i) -> Status {
    if (!has_state(ranks[i])) {
      return make_error(StatusCode::kNotFound,
                        "{}: expected {} beside it, as for other ranks, found no such file",
                        ranks[i].file, kDistribOptimFile);
    }
    MEG_ASSIGN_OR_RETURN(TorchFile state,
                         TorchFile::open(distrib_optim_path(ranks[i].file), options));
    states[i] = std::make_shared<const TorchFile>(std::move(state));
    return Status();
  };
  MEG_RETURN_IF_ERROR(for_each_file(ranks.size(), ranks, open));
  const auto compose = [&](size_t i) -> Status {
    // What expert-parallel ranks hold alike is saved by the first of them alone.
    const File& shared = states[i - i % static_cast<size_t>(files_of_tensor_rank)];
    MEG_ASSIGN_OR_RETURN(PlainRank composed, with_plain_optimizer((*files)[i], states[i], shared,
                                                                  table, pipeline_size));
    (*files)[i] = std::make_shared<const TorchFile>(std::move(composed.file));
    alignments[i] = composed.alignment;
    return Status();
  };
  MEG_RETURN_IF_ERROR(for_each_file(ranks.size(), ranks, compose));
  for (const std::optional<int64_t>& alignment : alignments) {
    if (alignment.has_value()) found.alignment = alignment;
  }
  return found;
}

}  // namespace meg::checkpoint
