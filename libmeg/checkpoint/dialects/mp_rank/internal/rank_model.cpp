#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"

#include <fmt/format.h>

#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"
#include "libmeg/model/foreign_models.h"

// Walks a chunk's dicts and matches each flat name with the table of parameters. All names are read
// before an error is given: which model these are of another one (BERT, T5) shows in what no rule
// knows.

namespace meg::checkpoint {
namespace {

/// Megatron nests its names four keys deep at most.
constexpr int kMaxModelNesting = 16;

/// What wrappers of a model (torch's DistributedDataParallel, FP16_Module) put before its names.
constexpr std::string_view kWrapper = "module.";

class ChunkReader {
 public:
  ChunkReader(const TorchFile& file, const model::ParameterTable& table, bool is_hybrid,
              std::vector<std::string>* unknown)
      : file_(file), table_(table), is_hybrid_(is_hybrid), collected_(unknown) {}

  Result<std::vector<RankEntry>> read(PickleId dict) {
    MEG_RETURN_IF_ERROR(read_dict(dict, "", 0));
    MEG_RETURN_IF_ERROR(check_unknown());
    return std::move(entries_);
  }

 private:
  Status read_dict(PickleId dict, const std::string& prefix, int depth) {
    // A pickle can hold a dict inside itself.
    if (depth > kMaxModelNesting) {
      return make_error(StatusCode::kCorruption,
                        "{}: model: {}: names are nested deeper than {} keys", file_.path(), prefix,
                        kMaxModelNesting);
    }
    const PickleGraph& graph = file_.graph();
    const std::span<const PickleId> pairs = graph.pairs(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> key = graph.as_string(pairs[i]);
      if (!key.has_value()) {
        return make_error(StatusCode::kCorruption,
                          "{}: model: {}: expected names as keys, found {}", file_.path(),
                          prefix.empty() ? "top level" : prefix, graph.describe(pairs[i], 40));
      }
      std::string name = prefix.empty() ? std::string(*key) : fmt::format("{}.{}", prefix, *key);
      // Wrappers may be around each other, so one after the other is taken off.
      while (name.starts_with(kWrapper)) name.erase(0, kWrapper.size());
      MEG_RETURN_IF_ERROR(read_value(pairs[i + 1], name, depth));
    }
    return Status();
  }

  Status read_value(PickleId id, const std::string& name, int depth) {
    const TensorView* tensor = file_.tensor(id);
    // The name is matched first, so that a tensor's dict of attributes is not searched.
    std::optional<model::ParameterMatch> match = table_.match(name, is_hybrid_);
    if (match.has_value() && match->is_expert) {
      return make_error(StatusCode::kUnsupported,
                        "{}: model: {}: this part of a mixture of experts is not supported",
                        file_.path(), name);
    }
    if (match.has_value() && (tensor != nullptr || match->is_extra_state)) {
      entries_.push_back({name, std::move(*match), id, tensor});
      return Status();
    }
    const PickleGraph& graph = file_.graph();
    // A call with pairs is an OrderedDict.
    const bool is_dict = graph.node(id).kind == PickleKind::kDict || !graph.pairs(id).empty();
    if (tensor == nullptr && is_dict) return read_dict(id, name, depth + 1);
    if (match.has_value()) {
      return make_error(StatusCode::kCorruption, "{}: model: {}: expected a tensor, found {}",
                        file_.path(), name, graph.describe(id, 60));
    }
    unknown_.push_back(name);
    return Status();
  }

  Status check_unknown() {
    if (const auto foreign = model::foreign_parameter(unknown_)) {
      return make_error(StatusCode::kUnsupported,
                        "{}: model: {}: expected GPT, found {}, which is not supported",
                        file_.path(), foreign->name, foreign->model);
    }
    if (collected_ != nullptr) {
      collected_->insert(collected_->end(), unknown_.begin(), unknown_.end());
      return Status();
    }
    if (unknown_.empty()) return Status();
    return make_error(StatusCode::kUnsupported,
                      "{}: model: {}: no rule knows this parameter; add a row with `param_rules`",
                      file_.path(), unknown_[0]);
  }

  const TorchFile& file_;
  const model::ParameterTable& table_;
  bool is_hybrid_;
  std::vector<std::string>* collected_;
  std::vector<std::string> unknown_;
  std::vector<RankEntry> entries_;
};

}  // namespace

Result<RankModel> read_rank_model(const TorchFile& file, const model::ParameterTable& table,
                                  std::vector<std::string>* unknown) {
  const ModelDicts found = find_model_dicts(file);
  RankModel model;
  model.is_chunked = found.is_chunked;
  const PickleGraph& graph = file.graph();
  const auto pattern = hybrid_pattern(graph, graph.find(file.root(), "args"));
  if (!pattern.has_value()) return pattern.error().with_prefix(file.path() + ": args");
  model.is_hybrid = pattern->has_value();
  if (found.dicts.empty()) {
    return make_error(StatusCode::kNotFound,
                      "{}: expected a dict with the key model or model0, found {}", file.path(),
                      file.graph().describe(file.root(), 60));
  }
  for (const PickleId dict : found.dicts) {
    MEG_ASSIGN_OR_RETURN(std::vector<RankEntry> entries,
                         ChunkReader(file, table, model.is_hybrid, unknown).read(dict));
    model.chunks.push_back(std::move(entries));
  }
  return model;
}

}  // namespace meg::checkpoint
