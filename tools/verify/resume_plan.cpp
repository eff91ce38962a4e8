// verify resume --dry-run: what a run would take from where, before it starts. The rules are those
// of the trainer: the checkpoint's reader, its schedule and its batches.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/check_tied_copy.h"
#include "libmeg/checkpoint/dialects/mp_rank/run_arguments.h"
#include "libmeg/checkpoint/training/read_training_state.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/samples/data_run.h"
#include "libmeg/schedule/scheduler_flags.h"
#include "libmeg/text/printable.h"
#include "tools/common/field_flags.h"
#include "tools/common/flag_groups/data_flags.h"
#include "tools/common/flag_groups/resume_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"
#include "tools/common/run_of_checkpoint.h"
#include "tools/verify/verify_programs.h"

namespace meg::tools {
namespace {

using megatron::ArgumentRow;
using megatron::Effect;
using megatron::FieldValue;
using nlohmann::ordered_json;

struct PlanArguments {
  megatron::ArgumentValues args;
  DataFlags data;
  ResumeFlags own;
};

/// One part of a run and where it comes from.
struct PlannedPart {
  std::string part, from, value;
};

/// A flag that says something else than the checkpoint's args.
struct ChangedArgument {
  std::string_view flag;
  std::string checkpoint, run;
  std::string_view effect;
};

struct PlannedStep {
  int64_t iteration = 0;
  int64_t first_sample = 0, batch_size = 0;
  double learning_rate = 0, weight_decay = 0;
  double logged_rate = 0;  ///< What the line of this step says.
};

struct ResumePlan {
  std::string checkpoint, flags;
  std::vector<PlannedPart> parts;
  std::vector<ChangedArgument> changes;
  std::vector<PlannedStep> steps;
  std::vector<std::string> warnings;
};

std::string_view effect_text(Effect effect) {
  switch (effect) {
    case Effect::kModel:
      return "another model";
    case Effect::kData:
      return "other samples, or another order of them";
    case Effect::kTokenizer:
      return "other tokens";
    case Effect::kSchedule:
      return "other rates, batches or another length of the run";
    case Effect::kOptimizer:
      return "other updates";
    default:
      return "";
  }
}

std::string shown(const std::optional<FieldValue>& value) {
  constexpr size_t kShown = 120;
  if (!value.has_value()) return "none";
  if (const auto* text = std::get_if<std::string>(&*value)) return text::printable(*text, kShown);
  return text::printable_name(megatron::field_text(*value), kShown);
}

std::string from_checkpoint(bool loads) { return loads ? "checkpoint" : "made new"; }

class Planner {
 public:
  Planner(PlanArguments& arguments, ResumePlan& plan) : arguments_(arguments), plan_(plan) {}

  Status make() {
    MEG_RETURN_IF_ERROR(open());
    MEG_RETURN_IF_ERROR(read_flags());
    compare_args();
    add_parts();
    return add_steps();
  }

 private:
  megatron::ArgumentValues& args() { return arguments_.args; }

  bool is_set(std::string_view field) const {
    return arguments_.args.field(field) == FieldValue(true);
  }

  Status open() {
    const std::optional<FieldValue> load = args().field("load");
    const auto* const folder = load ? std::get_if<std::string>(&*load) : nullptr;
    if (folder == nullptr) return {StatusCode::kInvalidArgument, "--load is required"};
    const std::optional<FieldValue> step = args().field("ckpt_step");
    const auto* const iteration = step ? std::get_if<int64_t>(&*step) : nullptr;
    const auto found =
        checkpoint::find_checkpoint(*folder, iteration ? std::optional(*iteration) : std::nullopt);
    if (!found.has_value()) return no_checkpoint(*folder, found.error());
    reading_ = {.finetune = is_set("finetune"),
                .no_load_optim = is_set("no_load_optim"),
                .no_load_rng = is_set("no_load_rng")};
    checkpoint::OpenCheckpointOptions options;
    options.ignore_optimizer = reading_.finetune || reading_.no_load_optim;
    MEG_ASSIGN_OR_RETURN(const auto opened, checkpoint::MegatronCheckpoint::open(*found, options));
    MEG_ASSIGN_OR_RETURN(state_, checkpoint::read_training_state(opened, reading_));
    const Status tied = checkpoint::check_tied_copy(opened);
    if (!tied.ok()) plan_.warnings.push_back(tied.message());
    loads_optimizer_ = reading_.loads_optimizer(opened);
    plan_.checkpoint = opened.folder().folder;
    layout_ = fmt::format("TP {}, PP {}", opened.tensor_model_parallel_size(),
                          opened.pipeline_model_parallel_size());
    is_release_ = opened.folder().is_release;
    return {};
  }

  Status read_flags() {
    std::vector<std::string> fields;
    for (const ArgumentRow& row : megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
      fields.emplace_back(row.dest);
    }
    const bool is_of_checkpoint = !describes_model(args());
    if (is_of_checkpoint) MEG_RETURN_IF_ERROR(take_run_of_checkpoint(fields, args()));
    plan_.flags = is_of_checkpoint ? "the checkpoint's args, beside the flags of the command line"
                                   : "the flags of the command line";
    const megatron::FieldLookup lookup = args().lookup();
    megatron::FieldReader reader(lookup);
    read_data_args(reader, arguments_.data);
    schedule_.take_fields(reader);
    reader.take("loss_scale", loss_scale_);
    reader.take("initial_loss_scale", initial_loss_scale_);
    return reader.status();
  }

  void compare_args() {
    std::vector<std::string_view> seen;
    for (const ArgumentRow& row : megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
      const bool is_new = std::ranges::find(seen, row.dest) == seen.end();
      seen.push_back(row.dest);
      if (!is_new || effect_text(row.effect).empty()) continue;
      if (is_derived_argument(state_.args, row.dest)) continue;
      const std::optional<FieldValue> saved = checkpoint::run_argument(state_.args, row);
      const std::optional<FieldValue> now = args().field(row.dest);
      if (!saved.has_value() || !now.has_value()) continue;
      // What neither says is what Megatron derives; only flags, and the run's own defaults, change.
      if (std::holds_alternative<std::monostate>(*now) || megatron::same_field(*saved, *now)) {
        continue;
      }
      plan_.changes.push_back({.flag = row.flag,
                               .checkpoint = shown(saved),
                               .run = shown(now),
                               .effect = effect_text(row.effect)});
    }
  }

  void add(std::string part, std::string from, std::string value) {
    plan_.parts.push_back({std::move(part), std::move(from), std::move(value)});
  }

  void warn(std::string text) { plan_.warnings.push_back(std::move(text)); }

  void add_parts() {
    add("weights", "checkpoint", layout_);
    add("iteration", from_checkpoint(!reading_.finetune && !is_release_),
        std::to_string(state_.iteration));
    add("consumed samples", from_checkpoint(!reading_.finetune && !is_release_),
        std::to_string(state_.consumed_train_samples));
    const auto& optimizer = state_.optimizer;
    add("moments", from_checkpoint(loads_optimizer_ && optimizer.has_value()), "");
    add("step of bias correction", from_checkpoint(loads_optimizer_ && optimizer.has_value()),
        std::to_string(optimizer.has_value() ? optimizer->decay.step.value_or(0) : 0));
    const bool is_sixteen_bit = is_set("fp16") || is_set("bf16");
    if (is_sixteen_bit) {
      add("fp32 masters", loads_optimizer_ ? "checkpoint" : "made from the 16-bit weights", "");
    }
    add_loss_scale();
    add("random states", from_checkpoint(state_.rng.has_value()),
        state_.rng.has_value() ? "" : fmt::format("--seed {}", arguments_.data.seed));
    add("tokenizer", args().given("tokenizer_type") ? "flags" : "args",
        arguments_.data.tokenizer.tokenizer_type);
    if (reading_.finetune) {
      warn("--finetune: iteration, samples, optimizer, schedule and random states start from zero");
    } else if (reading_.no_load_optim) {
      warn(
          "--no-load-optim: moments, step counter and the schedule of rates start from zero, too; "
          "the iteration and the samples continue");
    }
    if (reading_.no_load_rng && !reading_.finetune) {
      warn("--no-load-rng: dropout starts again as at the first iteration");
    }
    for (const char* reset : {"reset_position_ids", "reset_attention_mask"}) {
      if (!args().given(reset)) continue;
      const auto saved = checkpoint::run_field(state_.args, reset);
      if (saved != FieldValue(true)) {
        warn(fmt::format("`{}`: the run before did not have it: its losses were others", reset));
      }
    }
    if (state_.consumed_train_samples == 0 && state_.iteration > 0) {
      warn(
          "the checkpoint does not say how many samples it consumed: iteration times batch size "
          "counts");
    }
  }

  void add_loss_scale() {
    if (!is_set("fp16")) return;
    const auto& optimizer = state_.optimizer;
    const auto* const scaler = loads_optimizer_ && optimizer.has_value() &&
                                       optimizer->grad_scaler.has_value() &&
                                       optimizer->grad_scaler->dynamic.has_value()
                                   ? &*optimizer->grad_scaler->dynamic
                                   : nullptr;
    if (loss_scale_.value_or(0) != 0) {
      add("loss scale", "flags", fmt::format("{:g}", *loss_scale_));
    } else if (scaler != nullptr) {
      add("loss scale", "checkpoint", fmt::format("{:g}", scaler->scale));
    } else {
      add("loss scale", "made new", fmt::format("{:g}", initial_loss_scale_));
    }
  }

  Status add_steps() {
    MEG_ASSIGN_OR_RETURN(const samples::DataRun run,
                         samples::resolve_data(arguments_.data, environment_world_size()));
    for (const std::string& note : run.notes) warn(note);
    schedule_.global_batch_size = run.batches.global_batch_size();
    schedule_.has_rampup_batch_size = !arguments_.data.rampup_batch_size.empty();
    MEG_ASSIGN_OR_RETURN(auto scheduler, schedule::get_optimizer_param_scheduler(schedule_));
    const bool loads_schedule = loads_optimizer_ && state_.opt_param_scheduler.has_value();
    if (loads_schedule) {
      const auto& fields = *state_.opt_param_scheduler;
      const auto lookup = [&fields](std::string_view name) -> std::optional<FieldValue> {
        for (const auto& [key, value] : fields) {
          if (key == name) return value;
        }
        return std::nullopt;
      };
      MEG_ASSIGN_OR_RETURN(const std::vector<std::string> ignored,
                           scheduler.load_state_dict(lookup));
    }
    add("schedule of rates",
        !loads_schedule                          ? "flags, from its first step"
        : schedule_.override_opt_param_scheduler ? "flags, at the checkpoint's step"
                                                 : "checkpoint",
        fmt::format("{} samples done", scheduler.num_steps()));
    if (schedule_.override_opt_param_scheduler && loads_optimizer_) {
      warn(
          "--override-opt_param-scheduler: Megatron-LM keeps the maximum and minimum rate of the "
          "loaded optimizer all the same; this plan and pretrain_gpt take those of the flags");
    }
    int64_t consumed = state_.consumed_train_samples;
    if (consumed == 0) consumed = state_.iteration * run.batches.global_batch_size();
    if (run.batches.consumed_before(state_.iteration + 1) != consumed && !reading_.finetune) {
      warn(fmt::format(
          "{} samples after {} iterations are not those of these batches ({}): the "
          "batch size was another",
          consumed, state_.iteration, run.batches.consumed_before(state_.iteration + 1)));
    }
    for (int64_t i = 1; i <= arguments_.own.steps_or_default(); ++i) {
      PlannedStep step;
      step.iteration = state_.iteration + i;
      if (run.train_iters > 0 && step.iteration > run.train_iters) break;
      step.first_sample = consumed;
      step.batch_size = run.batches.batch_size_after(consumed);
      step.learning_rate = scheduler.lr();
      step.weight_decay = scheduler.weight_decay();
      scheduler.step(step.batch_size);
      step.logged_rate = scheduler.lr();
      consumed += step.batch_size;
      plan_.steps.push_back(step);
    }
    if (plan_.steps.empty()) {
      warn(fmt::format("the run ends at iteration {}, which the checkpoint has reached",
                       run.train_iters));
    }
    return {};
  }

  PlanArguments& arguments_;
  ResumePlan& plan_;
  checkpoint::TrainingReadOptions reading_;
  checkpoint::TrainingState state_;
  schedule::SchedulerFlags schedule_;
  std::optional<double> loss_scale_;
  double initial_loss_scale_ = 4294967296.0;
  bool loads_optimizer_ = false;
  bool is_release_ = false;
  std::string layout_;
};

void print_plan(const ResumePlan& plan) {
  fmt::print("checkpoint: {}\nflags: {}\n\n", plan.checkpoint, plan.flags);
  for (const PlannedPart& part : plan.parts) {
    fmt::print("{:<26}{}{}\n", part.part, part.from,
               part.value.empty() ? "" : fmt::format(": {}", part.value));
  }
  if (!plan.changes.empty()) fmt::print("\nother than in the checkpoint's args:\n");
  for (const ChangedArgument& change : plan.changes) {
    fmt::print("  {}: {} instead of {}: {}\n", change.flag, change.run, change.checkpoint,
               change.effect);
  }
  if (!plan.steps.empty()) {
    fmt::print("\n{:>10}  {:>24}  {:>10}  {:>14}  {:>14}  {:>12}\n", "iteration", "samples",
               "batch size", "learning rate", "in its line", "weight decay");
  }
  for (const PlannedStep& step : plan.steps) {
    fmt::print("{:>10}  {:>24}  {:>10}  {:>14.6E}  {:>14.6E}  {:>12g}\n", step.iteration,
               fmt::format("{} to {}", step.first_sample, step.first_sample + step.batch_size - 1),
               step.batch_size, step.learning_rate, step.logged_rate, step.weight_decay);
  }
}

ordered_json plan_json(const ResumePlan& plan) {
  ordered_json object = json_object();
  object["checkpoint"] = plan.checkpoint;
  object["flags"] = plan.flags;
  object["parts"] = ordered_json::array();
  for (const PlannedPart& part : plan.parts) {
    object["parts"].push_back({{"part", part.part}, {"from", part.from}, {"value", part.value}});
  }
  object["changes"] = ordered_json::array();
  for (const ChangedArgument& change : plan.changes) {
    object["changes"].push_back({{"flag", change.flag},
                                 {"checkpoint", change.checkpoint},
                                 {"run", change.run},
                                 {"effect", change.effect}});
  }
  object["steps"] = ordered_json::array();
  for (const PlannedStep& step : plan.steps) {
    object["steps"].push_back({{"iteration", step.iteration},
                               {"first_sample", step.first_sample},
                               {"global_batch_size", step.batch_size},
                               {"learning_rate", step.learning_rate},
                               {"logged_learning_rate", step.logged_rate},
                               {"weight_decay", step.weight_decay}});
  }
  object["warnings"] = ordered_json::array();
  for (const std::string& text : plan.warnings) object["warnings"].push_back(with_flags(text));
  return object;
}

}  // namespace

int plan_resume_main(int argc, const char* const* argv) {
  PlanArguments arguments;
  Flags flags("verify resume", ResumeFlags::kSummary);
  arguments.own.declare(flags);
  declare_own_data_flags(flags, arguments.data);
  std::vector<std::string> fields;
  for (const ArgumentRow& row : megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    fields.emplace_back(row.dest);
  }
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kTraining),
                  {.reads = fields, .required = {}, .idle = {}, .idle_fields = {}},
                  &arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  if (const Status status = arguments.own.check(); !status.ok()) return fail_usage(status);
  ResumePlan plan;
  if (const Status status = Planner(arguments, plan).make(); !status.ok()) {
    return fail_usage(status);
  }
  if (arguments.own.json) {
    print_json(plan_json(plan));
    return 0;
  }
  print_plan(plan);
  for (const std::string& text : plan.warnings) warning(text);
  return 0;
}

}  // namespace meg::tools
