#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"

#include <fmt/format.h>

#include <utility>

namespace meg::checkpoint {
namespace {

/// Megatron nests its names four keys deep at most.
constexpr int kMaxNesting = 16;

class ChunkReader {
 public:
  ChunkReader(const TorchFile& file, const model::ParameterTable& table,
              std::vector<std::string>* unknown)
      : file_(file), table_(table), unknown_(unknown) {}

  Result<std::vector<RankEntry>> read(PickleId dict) {
    MEG_RETURN_IF_ERROR(read_dict(dict, "", 0));
    return std::move(entries_);
  }

 private:
  Status read_dict(PickleId dict, const std::string& prefix, int depth) {
    if (depth > kMaxNesting) {
      return make_error(StatusCode::kCorruption, "{}: model: {}: names nest deeper than {} keys",
                        file_.path(), prefix, kMaxNesting);
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
      const std::string name =
          prefix.empty() ? std::string(*key) : fmt::format("{}.{}", prefix, *key);
      MEG_RETURN_IF_ERROR(read_value(pairs[i + 1], name, depth));
    }
    return Status();
  }

  Status read_value(PickleId id, const std::string& name, int depth) {
    const TensorView* tensor = file_.tensor(id);
    std::optional<model::ParameterMatch> match = table_.match(name);
    if (match.has_value() && match->is_expert) {
      return make_error(StatusCode::kUnsupported, "{}: model: {}: experts are not supported yet",
                        file_.path(), name);
    }
    if (match.has_value() && (tensor != nullptr || match->is_extra_state)) {
      entries_.push_back({name, std::move(*match), id, tensor});
      return Status();
    }
    const PickleGraph& graph = file_.graph();
    const bool is_dict = graph.node(id).kind == PickleKind::kDict || !graph.pairs(id).empty();
    if (tensor == nullptr && is_dict) return read_dict(id, name, depth + 1);
    if (match.has_value()) {
      return make_error(StatusCode::kCorruption, "{}: model: {}: expected a tensor, found {}",
                        file_.path(), name, graph.describe(id, 60));
    }
    if (unknown_ != nullptr) {
      unknown_->push_back(name);
      return Status();
    }
    return make_error(StatusCode::kUnsupported,
                      "{}: model: {}: no rule knows this parameter; add a row with --param-rules",
                      file_.path(), name);
  }

  const TorchFile& file_;
  const model::ParameterTable& table_;
  std::vector<std::string>* unknown_;
  std::vector<RankEntry> entries_;
};

}  // namespace

Result<RankModel> read_rank_model(const TorchFile& file, const model::ParameterTable& table,
                                  std::vector<std::string>* unknown) {
  const PickleGraph& graph = file.graph();
  RankModel model;
  std::vector<PickleId> dicts;
  if (const std::optional<PickleId> plain = graph.find(file.root(), "model")) {
    dicts.push_back(*plain);
  } else {
    model.is_chunked = true;
    while (const auto chunk = graph.find(file.root(), fmt::format("model{}", dicts.size()))) {
      dicts.push_back(*chunk);
    }
  }
  if (dicts.empty()) {
    return make_error(StatusCode::kNotFound,
                      "{}: expected a dict with the key model or model0, found {}", file.path(),
                      graph.describe(file.root(), 60));
  }
  for (const PickleId dict : dicts) {
    MEG_ASSIGN_OR_RETURN(std::vector<RankEntry> entries,
                         ChunkReader(file, table, unknown).read(dict));
    model.chunks.push_back(std::move(entries));
  }
  return model;
}

}  // namespace meg::checkpoint
