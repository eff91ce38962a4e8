#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"
#include "libmeg/checkpoint/verify/internal/node_text.h"
#include "libmeg/checkpoint/verify/internal/rank_checks.h"

// Checks what ranks say of their optimizers against each other; tensors are not read here.

namespace meg::checkpoint {
namespace {

bool is_sixteen_bit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

/// The form in which a rank's optimizer was saved.
OptimizerForm stored_form(const RankContent& rank) {
  return rank.is_distributed ? OptimizerForm::kDistributed : rank.optimizer->layout.form;
}

class OptimizerChecker {
 public:
  OptimizerChecker(const CheckpointRanks& ranks, CheckpointReport* report)
      : ranks_(ranks),
        report_(*report),
        is_single_file_(report->format == CheckpointFormat::kSingleFile) {}

  void run();

 private:
  bool check_presence();
  void check_coverage(const RankContent& rank);
  void check_distributed(const RankContent& rank);
  void check_groups(const RankContent& rank);
  void check_group(const RankContent& rank, const ParamGroup& found);
  void check_steps(const RankContent& rank);
  void check_scheduler(const RankContent& rank);
  void add_notes();

  void add_problem(const RankContent& rank, std::string tensor, std::string expected,
                   std::string found, std::string likely_cause = "") {
    report_.problems.push_back({.check = CheckpointCheck::kOptimizer,
                                .file = rank.file->path(),
                                .subject = std::move(tensor),
                                .expected = std::move(expected),
                                .found = std::move(found),
                                .likely_cause = std::move(likely_cause)});
  }

  const CheckpointRanks& ranks_;
  CheckpointReport& report_;
  bool is_single_file_;
  /// The first rank whose group of this kind has parameters; nullptr: none.
  std::pair<const RankContent*, const ParamGroup*> model_of(ParamGroupKind kind) const;

  const RankContent* first_ = nullptr;  // the first rank whose optimizer could be read
  std::string step_;                    // of its first parameter that has one
};

void OptimizerChecker::run() {
  if (!check_presence()) return;
  for (const RankContent& rank : ranks_.ranks) {
    if (!rank.optimizer.has_value() || rank.optimizer->layout.form == OptimizerForm::kNone)
      continue;
    check_scheduler(rank);
    check_groups(rank);
    if (rank.optimizer->layout.form == OptimizerForm::kDistributed) {
      check_distributed(rank);
      continue;
    }
    check_coverage(rank);
    check_steps(rank);
  }
  add_notes();
}

/// Whether there are optimizers; all ranks must have one then.
bool OptimizerChecker::check_presence() {
  for (const RankContent& rank : ranks_.ranks) {
    if (rank.optimizer.has_value() && rank.optimizer->layout.form != OptimizerForm::kNone) {
      first_ = &rank;
      break;
    }
  }
  if (first_ == nullptr) return false;
  // All further checks follow the form of the first rank that has one.
  report_.optimizer = stored_form(*first_);
  for (const RankContent& rank : ranks_.ranks) {
    if (!rank.optimizer.has_value()) continue;
    if (rank.optimizer->layout.form == OptimizerForm::kNone) {
      add_problem(rank, "", fmt::format("an optimizer as in {}", first_->folder_name), "none");
    } else if (!rank.parameters.empty() && stored_form(rank) != report_.optimizer) {
      add_problem(rank, "",
                  fmt::format("an optimizer of the same kind as in {}", first_->folder_name),
                  "another");
    }
  }
  return true;
}

/// Checks that every parameter has the same kinds of state as the first one, and that 16-bit ones
/// also have a master.
void OptimizerChecker::check_coverage(const RankContent& rank) {
  const RankOptimizer& optimizer = *rank.optimizer;
  const auto kinds_of = [&](size_t i) {
    std::set<std::string> kinds;
    for (const auto& [kind, tensor] : optimizer.states[i].tensors) {
      if (kind != "fp32_param") kinds.insert(kind);
    }
    return kinds;
  };
  for (size_t i = 0; i < rank.parameters.size(); ++i) {
    const OptimizedParameter& parameter = rank.parameters[i];
    const bool has_master =
        std::any_of(optimizer.states[i].tensors.begin(), optimizer.states[i].tensors.end(),
                    [](const auto& tensor) { return tensor.first == "fp32_param"; });
    if (optimizer.layout.form == OptimizerForm::kMixedPrecision && !has_master &&
        is_sixteen_bit(parameter.weight->dtype)) {
      add_problem(rank, parameter.flat_name, "an fp32 master", "none");
    }
    // The first parameter's kinds are as good as any: it is the odd ones out that are reported.
    const std::set<std::string> expected = kinds_of(0);
    const std::set<std::string> found = kinds_of(i);
    if (expected == found) continue;
    add_problem(rank, parameter.flat_name,
                fmt::format("{} as of {}", fmt::join(expected, ", "), rank.parameters[0].flat_name),
                found.empty() ? "no state" : fmt::format("{}", fmt::join(found, ", ")));
  }
}

/// Checks whether the state of an optimizer that could not be joined with it exists at all.
void OptimizerChecker::check_distributed(const RankContent& rank) {
  if (rank.has_distrib_optim || is_single_file_) return;
  const std::filesystem::path folder = std::filesystem::path(rank.file->path()).parent_path();
  report_.problems.push_back({.check = CheckpointCheck::kDistributedOptimizer,
                              .file = (folder / kDistribOptimFile).string(),
                              .expected = "the distributed optimizer's state",
                              .found = "no such file",
                              .likely_cause = "an incomplete copy"});
}

void OptimizerChecker::check_groups(const RankContent& rank) {
  for (const ParamGroup& group : rank.optimizer->layout.groups) check_group(rank, group);
}

std::pair<const RankContent*, const ParamGroup*> OptimizerChecker::model_of(
    ParamGroupKind kind) const {
  for (const RankContent& rank : ranks_.ranks) {
    if (!rank.optimizer.has_value()) continue;
    const ParamGroup* group = rank.optimizer->layout.group(kind);
    if (group != nullptr && group->parameters > 0) return {&rank, group};
  }
  return {nullptr, nullptr};
}

/// Every field but params. A group that has no parameters on a stage has made no steps there.
void OptimizerChecker::check_group(const RankContent& rank, const ParamGroup& found) {
  const auto [model, expected] = model_of(found.kind);
  // A stage without biases, for one, has an empty group without decay.
  if (model == nullptr || model == &rank || found.parameters == 0) return;
  const PickleGraph& graph = model->file->graph();
  const std::span<const PickleId> pairs = graph.pairs(expected->node);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<std::string_view> key = graph.as_string(pairs[i]);
    if (!key.has_value() || *key == "params") continue;
    const std::string value = node_text(*model->file, pairs[i + 1]);
    const std::optional<PickleId> other = rank.file->graph().find(found.node, *key);
    const std::string other_value =
        other.has_value() ? node_text(*rank.file, *other) : "no such field";
    if (value == other_value) continue;
    add_problem(rank, fmt::format("param_groups, {}, {}", param_group_text(found.kind), *key),
                fmt::format("{} as in {}", value, model->folder_name), other_value,
                *key == "step" ? "a rank's file of another checkpoint" : "");
  }
}

/// torch's own Adam keeps a step for each parameter.
void OptimizerChecker::check_steps(const RankContent& rank) {
  for (size_t i = 0; i < rank.parameters.size(); ++i) {
    for (const auto& [key, node] : rank.optimizer->states[i].other) {
      if (key != "step") continue;
      const std::string step = node_text(*rank.file, node);
      if (step_.empty()) step_ = step;
      if (step == step_) continue;
      add_problem(rank, rank.parameters[i].flat_name + " step", step_ + " as of others", step);
      // One is enough: the rank's file is most likely another step's, and all of its parameters
      // would be listed.
      return;
    }
  }
}

void OptimizerChecker::check_scheduler(const RankContent& rank) {
  for (const char* key : {"opt_param_scheduler", "lr_scheduler"}) {
    const std::optional<PickleId> expected = first_->top(key);
    const std::optional<PickleId> found = rank.top(key);
    if (&rank == first_ || !expected.has_value()) continue;
    const PickleGraph& graph = first_->file->graph();
    const std::span<const PickleId> pairs = graph.pairs(*expected);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> field = graph.as_string(pairs[i]);
      if (!field.has_value()) continue;
      const std::optional<PickleId> other =
          found.has_value() ? rank.file->graph().find(*found, *field) : std::nullopt;
      const std::string value = node_text(*first_->file, pairs[i + 1]);
      const std::string other_value =
          other.has_value() ? node_text(*rank.file, *other) : "no such field";
      if (value == other_value) continue;
      add_problem(rank, fmt::format("{}, {}", key, *field),
                  fmt::format("{} as in {}", value, first_->folder_name), other_value);
    }
  }
}

void OptimizerChecker::add_notes() {
  const RankContent& first = *first_;
  if (!first.top("opt_param_scheduler").has_value() && !first.top("lr_scheduler").has_value()) {
    report_.notes.emplace_back("an optimizer without a scheduler beside it");
  }
  if (!first.top("rng_state").has_value() && !first.top("random_rng_state").has_value()) {
    report_.notes.emplace_back("an optimizer without RNG states beside it");
  }
  if (report_.optimizer != OptimizerForm::kDistributed && !first.optimizer->layout.has_state) {
    report_.notes.emplace_back("the optimizer was saved before its first step: it has no state");
  }
}

}  // namespace

void check_optimizers(const CheckpointRanks& ranks, CheckpointReport* report) {
  OptimizerChecker(ranks, report).run();
}

}  // namespace meg::checkpoint
