#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"
#include "libmeg/checkpoint/verify/internal/node_text.h"
#include "libmeg/checkpoint/verify/internal/rank_checks.h"

namespace meg::checkpoint {
namespace {

/// Checks what a run needs to resume apart from weights and optimizer.
class StateChecker {
 public:
  StateChecker(const CheckpointRanks& ranks, CheckpointReport* report)
      : ranks_(ranks), report_(*report) {}

  void check_rng();
  void check_scaler();

 private:
  void check_scaler_of(const RankContent& rank, const RankContent& model);
  std::optional<PickleId> scaler_of(const RankContent& rank) const;
  bool is_fp16() const;

  void add_problem(std::string_view check, const RankContent& rank, std::string name,
                   std::string expected, std::string found, int64_t count = 1) {
    report_.problems.push_back({.check = check,
                                .file = rank.file->path(),
                                .subject = std::move(name),
                                .expected = std::move(expected),
                                .found = std::move(found),
                                .count = count});
  }

  const CheckpointRanks& ranks_;
  CheckpointReport& report_;
};

/// Ranks differ in the values, never in which generators there are.
void StateChecker::check_rng() {
  // The rank that has the most generators is taken for whole, as none is more right than another.
  std::vector<std::set<std::string>> names(ranks_.ranks.size());
  for (size_t i = 0; i < names.size(); ++i) {
    for (auto& [name, node] : rng_entries(*ranks_.ranks[i].file)) names[i].insert(name);
  }
  const auto most = std::max_element(
      names.begin(), names.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (most == names.end()) return;
  const RankContent& model = ranks_.ranks[static_cast<size_t>(most - names.begin())];
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> missing;
    std::set_difference(most->begin(), most->end(), names[i].begin(), names[i].end(),
                        std::back_inserter(missing));
    if (missing.empty()) continue;
    add_problem(CheckpointCheck::kRandomStates, ranks_.ranks[i], missing.front(),
                fmt::format("it as in {}", model.folder_name), "none",
                static_cast<int64_t>(missing.size()));
  }
}

std::optional<PickleId> StateChecker::scaler_of(const RankContent& rank) const {
  const std::optional<PickleId> optimizer = rank.top("optimizer");
  if (!optimizer.has_value()) return std::nullopt;
  return rank.file->graph().find(*optimizer, "grad_scaler");
}

bool StateChecker::is_fp16() const {
  const RankContent& first = ranks_.ranks.front();
  if (!first.args.has_value()) return false;
  const std::optional<PickleId> fp16 = find_arg(first.file->graph(), *first.args, "fp16");
  return fp16.has_value() && first.file->graph().as_bool(*fp16) == true;
}

void StateChecker::check_scaler() {
  if (report_.optimizer == OptimizerForm::kNone || ranks_.ranks.empty()) return;
  const auto model =
      std::find_if(ranks_.ranks.begin(), ranks_.ranks.end(),
                   [this](const RankContent& rank) { return scaler_of(rank).has_value(); });
  // No rank has one: that is wrong for fp16 alone, as Megatron has no scaler for bf16 and fp32.
  if (model == ranks_.ranks.end()) {
    if (is_fp16()) {
      add_problem(CheckpointCheck::kLossScaler, ranks_.ranks.front(), "grad_scaler",
                  "a loss scaler, as args have fp16", "none");
    }
    return;
  }
  for (const RankContent& rank : ranks_.ranks) {
    if (rank.top("optimizer").has_value()) check_scaler_of(rank, *model);
  }
}

void StateChecker::check_scaler_of(const RankContent& rank, const RankContent& model) {
  const std::optional<PickleId> found = scaler_of(rank);
  if (!found.has_value()) {
    return add_problem(CheckpointCheck::kLossScaler, rank, "grad_scaler",
                       fmt::format("a loss scaler as in {}", model.folder_name), "none");
  }
  const PickleGraph& graph = model.file->graph();
  const std::span<const PickleId> pairs = graph.pairs(*scaler_of(model));
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    // Compared as text, which is the same for an int in one file and a tensor of one element in
    // another.
    const std::optional<std::string_view> key = graph.as_string(pairs[i]);
    if (!key.has_value()) continue;
    const std::string name = fmt::format("grad_scaler, {}", *key);
    const std::optional<PickleId> node = rank.file->graph().find(*found, *key);
    const std::string expected = node_text(*model.file, pairs[i + 1]);
    const std::string value = node.has_value() ? node_text(*rank.file, *node) : "no such field";
    if (value != expected) {
      add_problem(CheckpointCheck::kLossScaler, rank, name,
                  fmt::format("{} as in {}", expected, model.folder_name), value);
      continue;
    }
    const std::optional<double> number = node_number(*rank.file, *node);
    if (*key != "scale" || (number.has_value() && std::isfinite(*number) && *number > 0)) continue;
    add_problem(CheckpointCheck::kLossScaler, rank, name, "a finite number above 0", value);
  }
}

}  // namespace

void check_state(const CheckpointRanks& ranks, CheckpointReport* report) {
  StateChecker checker(ranks, report);
  checker.check_rng();
  checker.check_scaler();
}

}  // namespace meg::checkpoint
