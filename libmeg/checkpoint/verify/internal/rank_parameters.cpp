#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_config.h"
#include "libmeg/checkpoint/verify/internal/rank_checks.h"

namespace meg::checkpoint {
namespace {

/// A chunk of a stage as its first readable tensor rank holds it.
struct ChunkView {
  const RankContent* rank = nullptr;
  const std::vector<RankEntry>* entries = nullptr;
  int64_t layers = 0;
};

class ParameterChecker {
 public:
  ParameterChecker(const CheckpointRanks& ranks, CheckpointReport* report);

  void run();

 private:
  void check_tensor_ranks();
  void check_copies();
  void check_tensor_rank(const RankContent& first, const RankContent& rank, size_t chunk);
  void check_layers();
  void check_layer_numbers(ChunkView* chunk);
  void check_layer_names();
  void check_other_names();
  void check_shapes();

  void add_problem(std::string_view check, const RankContent& rank, std::string tensor,
                   std::string expected, std::string found) {
    report_.problems.push_back({.check = check,
                                .file = rank.file->path(),
                                .subject = std::move(tensor),
                                .expected = std::move(expected),
                                .found = std::move(found)});
  }

  bool has_canonical(const std::string& canonical) const;

  const CheckpointRanks& ranks_;
  CheckpointReport& report_;
  std::vector<ChunkView> chunks_;
  bool is_whole_ = true;  // a rank of every stage could be read
  RankShapes shapes_;     // by args
};

ParameterChecker::ParameterChecker(const CheckpointRanks& ranks, CheckpointReport* report)
    : ranks_(ranks), report_(*report) {
  for (int64_t stage = 0; stage < ranks.pipeline_size; ++stage) {
    const RankContent* rank = ranks.of_stage(stage);
    is_whole_ &= rank != nullptr;
    if (rank == nullptr) continue;
    for (const std::vector<RankEntry>& entries : rank->model->chunks) {
      chunks_.push_back({.rank = rank, .entries = &entries});
    }
  }
  if (!ranks.config.has_value()) return;
  shapes_ = RankShapes(*ranks.config, ranks.tensor_size, ranks.pipeline_size > 1);
}

void ParameterChecker::run() {
  check_tensor_ranks();
  check_copies();
  check_layers();
  check_layer_names();
  if (is_whole_) check_other_names();
  check_shapes();
}

void ParameterChecker::check_copies() {
  for (const RankContent& copy : ranks_.copies) {
    const RankContent* rank = ranks_.find(copy.tensor_rank, copy.pipeline_rank);
    // Files with other chunks are not composed.
    if (!copy.model.has_value() || rank == nullptr || !rank->model.has_value()) continue;
    for (size_t c = 0; c < rank->model->chunks.size(); ++c) check_tensor_rank(*rank, copy, c);
  }
}

void ParameterChecker::check_tensor_ranks() {
  for (const RankContent& rank : ranks_.ranks) {
    const RankContent* first = ranks_.of_stage(rank.pipeline_rank);
    if (!rank.model.has_value() || first == &rank) continue;
    if (rank.model->chunks.size() != first->model->chunks.size()) {
      add_problem(CheckpointCheck::kNames, rank, "",
                  fmt::format("{} virtual stages as in {}", first->model->chunks.size(),
                              first->folder_name),
                  std::to_string(rank.model->chunks.size()));
      continue;
    }
    for (size_t c = 0; c < rank.model->chunks.size(); ++c) check_tensor_rank(*first, rank, c);
  }
}

void ParameterChecker::check_tensor_rank(const RankContent& first, const RankContent& rank,
                                         size_t chunk) {
  std::unordered_map<std::string_view, const RankEntry*> others;
  for (const RankEntry& entry : rank.model->chunks[chunk]) others[entry.flat_name] = &entry;
  for (const RankEntry& entry : first.model->chunks[chunk]) {
    if (rank.is_copy && entry.match.expert.has_value()) continue;
    const auto other = others.find(entry.flat_name);
    if (other == others.end()) {
      add_problem(CheckpointCheck::kNames, rank, entry.flat_name,
                  fmt::format("it as in {}", first.folder_name), "no such parameter");
      continue;
    }
    const TensorView* expected = entry.tensor;
    const TensorView* found = other->second->tensor;
    others.erase(other);
    if (entry.match.is_extra_state || expected == nullptr || found == nullptr) continue;
    if (expected->shape == found->shape && expected->dtype == found->dtype) continue;
    add_problem(CheckpointCheck::kShapes, rank, entry.flat_name,
                fmt::format("{} {} as in {}", dtype_name(expected->dtype),
                            shape_text(expected->shape), first.folder_name),
                fmt::format("{} {}", dtype_name(found->dtype), shape_text(found->shape)));
  }
  for (const RankEntry& entry : rank.model->chunks[chunk]) {
    if (others.count(entry.flat_name) == 0) continue;
    add_problem(CheckpointCheck::kNames, rank, entry.flat_name,
                fmt::format("none, as in {}", first.folder_name), "a parameter");
  }
}

void ParameterChecker::check_layers() {
  int64_t layers = 0;
  for (ChunkView& chunk : chunks_) {
    check_layer_numbers(&chunk);
    layers += chunk.layers;
  }
  if (!is_whole_ || !ranks_.config.has_value() || layers == ranks_.config->num_layers) return;
  report_.problems.push_back(
      {.check = CheckpointCheck::kNames,
       .file = report_.folder,
       .expected = fmt::format("{} layers (num_layers in args)", ranks_.config->num_layers),
       .found = fmt::format("{} in the rank files", layers)});
}

/// Layers of a chunk count from 0 without gaps; each parameter of a layer is there once.
void ParameterChecker::check_layer_numbers(ChunkView* chunk) {
  std::set<int64_t> numbers;
  std::set<std::pair<std::string_view, int64_t>> seen;
  for (const RankEntry& entry : *chunk->entries) {
    if (entry.match.is_extra_state) continue;
    if (entry.match.layer.has_value()) numbers.insert(*entry.match.layer);
    if (!seen.insert({entry.match.canonical, entry.match.layer.value_or(-1)}).second) {
      add_problem(CheckpointCheck::kNames, *chunk->rank, entry.flat_name, "it once",
                  "it twice, under two names");
    }
  }
  chunk->layers = static_cast<int64_t>(numbers.size());
  int64_t expected = 0;
  for (const int64_t number : numbers) {
    if (number != expected) {
      add_problem(CheckpointCheck::kNames, *chunk->rank, "layers",
                  fmt::format("layer {} next", expected), std::to_string(number));
      return;
    }
    ++expected;
  }
}

/// All layers have the same parameters, and those that the config asks for.
void ParameterChecker::check_layer_names() {
  std::map<std::string, std::string> spellings;  // of every canonical name that some layer has
  for (const ChunkView& chunk : chunks_) {
    for (const RankEntry& entry : *chunk.entries) {
      if (entry.match.layer.has_value() && !entry.match.is_extra_state) {
        spellings.emplace(entry.match.canonical, entry.match.spelling);
      }
    }
  }
  if (spellings.empty()) return;
  for (const model::ModelParameter& parameter : shapes_.parameters()) {
    if (parameter.placement != model::Placement::kLayer) continue;
    if (spellings.count(parameter.canonical) > 0) continue;
    add_problem(CheckpointCheck::kNames, *chunks_.front().rank, parameter.canonical,
                "it in every layer, by args", "it in none");
  }
  const bool has_experts = ranks_.config.has_value() && ranks_.config->num_experts.has_value();
  for (const ChunkView& chunk : chunks_) {
    std::set<std::pair<std::string_view, int64_t>> present;
    std::set<int64_t> numbers;
    for (const RankEntry& entry : *chunk.entries) {
      if (!entry.match.layer.has_value() || entry.match.is_extra_state) continue;
      present.insert({entry.match.canonical, *entry.match.layer});
      numbers.insert(*entry.match.layer);
    }
    for (const int64_t number : numbers) {
      for (const auto& [canonical, spelling] : spellings) {
        // Experts may be in some of the layers only.
        if (has_experts && canonical.find(".mlp.") != canonical.npos) continue;
        if (present.count({canonical, number}) > 0) continue;
        add_problem(CheckpointCheck::kNames, *chunk.rank, model::with_layer(spelling, number),
                    "it as in other layers", "no such parameter");
      }
    }
  }
}

bool ParameterChecker::has_canonical(const std::string& canonical) const {
  return std::any_of(chunks_.begin(), chunks_.end(), [&](const ChunkView& chunk) {
    return std::any_of(chunk.entries->begin(), chunk.entries->end(), [&](const RankEntry& entry) {
      return entry.match.canonical == canonical ||
             (canonical == model::kTiedCopyName && ranks_.is_tied_copy(entry));
    });
  });
}

/// Embedding, final norm and output layer.
void ParameterChecker::check_other_names() {
  for (const model::ModelParameter& parameter : shapes_.parameters()) {
    if (parameter.placement == model::Placement::kLayer) continue;
    if (has_canonical(parameter.canonical)) continue;
    const bool is_first = parameter.placement == model::Placement::kEmbedding;
    const RankContent* rank = ranks_.of_stage(is_first ? 0 : ranks_.pipeline_size - 1);
    add_problem(CheckpointCheck::kNames, *rank, parameter.canonical,
                fmt::format("it on the {} stage, by args", is_first ? "first" : "last"),
                "no such parameter");
  }
}

/// Against args; every kind of parameter is reported once. Table heights are check_agreement's.
void ParameterChecker::check_shapes() {
  std::map<std::string, Problem> problems;
  for (const ChunkView& chunk : chunks_) {
    for (const RankEntry& entry : *chunk.entries) {
      if (entry.match.is_extra_state || entry.tensor == nullptr) continue;
      const std::vector<int64_t>& found = entry.tensor->shape;
      const std::optional<std::vector<int64_t>> expected = shapes_.expected(entry.match, found);
      if (!expected.has_value() || *expected == found) continue;
      const auto [known, is_new] = problems.try_emplace(entry.match.canonical);
      if (!is_new) {
        ++known->second.count;
        continue;
      }
      known->second = {.check = CheckpointCheck::kShapes,
                       .file = chunk.rank->file->path(),
                       .subject = entry.flat_name,
                       .expected = fmt::format("{} by args", shape_text(*expected)),
                       .found = shape_text(found)};
    }
  }
  for (auto& [canonical, problem] : problems) report_.problems.push_back(std::move(problem));
}

}  // namespace

void check_parameters(const CheckpointRanks& ranks, CheckpointReport* report) {
  ParameterChecker(ranks, report).run();
}

}  // namespace meg::checkpoint
