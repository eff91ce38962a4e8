#include "tools/common/run_of_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/run_arguments.h"
#include "libmeg/checkpoint/training/read_training_state.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/python_value.h"

namespace meg::tools {
namespace {

using megatron::ArgumentRow;
using megatron::Effect;
using megatron::FieldValue;

/// Fields of what else a run did than its steps.
constexpr std::string_view kLeftOut[] = {"exit_interval", "exit_duration_in_mins",
                                         "use_checkpoint_args", "data_parallel_random_init"};

bool is_among(auto&& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

bool is_of_steps(Effect effect) {
  return effect == Effect::kModel || effect == Effect::kData || effect == Effect::kTokenizer ||
         effect == Effect::kSchedule || effect == Effect::kOptimizer;
}

bool is_default(const ArgumentRow& row, const FieldValue& value) {
  const auto usual = megatron::parse_python_value(row.default_value);
  const auto* const flag = std::get_if<bool>(&value);
  const auto* const text = std::get_if<std::string>(&value);
  const auto* const list = std::get_if<std::vector<std::string>>(&value);
  return (usual.has_value() && megatron::same_field(*usual, value)) ||
         (flag != nullptr && !*flag && row.stored == "True") ||
         (list != nullptr && list->empty()) ||
         (text != nullptr &&
          (*text == row.default_value || is_among(megatron::words_of(row.supported), *text)));
}

/// A cache of a run that is elsewhere would be a new folder here.
bool is_missing_folder(std::string_view dest, const FieldValue& value) {
  if (!dest.ends_with("cache_path")) return false;
  std::error_code ignored;
  const auto* const folder = std::get_if<std::string>(&value);
  return folder != nullptr && !std::filesystem::is_directory(*folder, ignored);
}

}  // namespace

bool describes_model(const megatron::ArgumentValues& args) {
  return args.given("num_layers") || args.given("hybrid_layer_pattern") ||
         args.given("hybrid_override_pattern") || args.has_any({"use_checkpoint_args"});
}

bool is_derived_argument(const checkpoint::TrainingArgs& saved, std::string_view dest) {
  if (dest == "train_iters") return checkpoint::run_field(saved, "train_samples").has_value();
  if (dest == "num_query_groups") {
    return checkpoint::run_field(saved, "group_query_attention") != FieldValue(true);
  }
  if (dest == "start_weight_decay" || dest == "end_weight_decay") {
    return checkpoint::run_field(saved, "weight_decay_incr_style")
               .value_or(FieldValue(std::string("constant"))) ==
           FieldValue(std::string("constant"));
  }
  return false;
}

Result<checkpoint::TrainingArgs> args_of_load(const megatron::ArgumentValues& args) {
  const std::optional<FieldValue> load = args.field("load");
  const auto* const folder = load ? std::get_if<std::string>(&*load) : nullptr;
  if (folder == nullptr) {
    return Status(StatusCode::kInvalidArgument,
                  "--load is required: a checkpoint with the args of a run");
  }
  const std::optional<FieldValue> step = args.field("ckpt_step");
  const auto* const iteration = step ? std::get_if<int64_t>(&*step) : nullptr;
  MEG_ASSIGN_OR_RETURN(
      const checkpoint::CheckpointFolder found,
      checkpoint::find_checkpoint(*folder, iteration ? std::optional(*iteration) : std::nullopt));
  checkpoint::OpenCheckpointOptions options;
  options.ignore_optimizer = true;
  MEG_ASSIGN_OR_RETURN(const auto opened, checkpoint::MegatronCheckpoint::open(found, options));
  MEG_ASSIGN_OR_RETURN(checkpoint::TrainingState state,
                       checkpoint::read_training_state(opened, {.finetune = true}));
  if (!checkpoint::run_field(state.args, "num_layers").has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected the args of a run, found none: give the run's flags",
                      found.folder);
  }
  return std::move(state.args);
}

Status take_run_of_checkpoint(std::span<const std::string> fields, megatron::ArgumentValues& args) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::TrainingArgs saved, args_of_load(args));
  std::vector<std::string_view> seen;
  for (const ArgumentRow& row : megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    const bool is_new = !is_among(seen, row.dest);
    seen.push_back(row.dest);
    if (!is_new || args.given(row.dest) || !is_of_steps(row.effect)) continue;
    if (is_among(kLeftOut, row.dest) || is_derived_argument(saved, row.dest)) continue;
    const std::optional<FieldValue> found = checkpoint::run_argument(saved, row);
    if (!found.has_value() || is_missing_folder(row.dest, *found)) continue;
    if (is_among(fields, row.dest)) {
      args.set(row.dest, *found);
    } else if (row.effect == Effect::kOptimizer && !is_default(row, *found)) {
      // Of the model check_architecture says what is not supported.
      return make_error(StatusCode::kUnsupported,
                        "args of the checkpoint in `load`: `{}` {}: not supported yet", row.dest,
                        megatron::field_text(*found));
    }
  }
  return {};
}

Status make_one_rank(megatron::ArgumentValues& args, DataFlags& data) {
  const std::optional<FieldValue> batch = args.field("global_batch_size");
  if (!batch.has_value() || !std::holds_alternative<int64_t>(*batch)) {
    MEG_ASSIGN_OR_RETURN(const checkpoint::TrainingArgs saved, args_of_load(args));
    const auto found = checkpoint::run_field(saved, "global_batch_size");
    if (found.has_value()) args.set("global_batch_size", *found);
  }
  for (const ArgumentRow& row : megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    if (row.effect != Effect::kParallel) continue;
    const auto usual = megatron::parse_python_value(row.default_value);
    if (usual.has_value()) args.set(row.dest, *usual);
  }
  for (const char* size : {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                           "context_parallel_size", "expert_model_parallel_size"}) {
    args.set(size, int64_t{1});
  }
  for (const char* overlap : {"overlap_grad_reduce", "overlap_param_gather"}) {
    args.set(overlap, false);
  }
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  read_data_args(reader, data);
  data.world_size = std::nullopt;
  return reader.status();
}

}  // namespace meg::tools
