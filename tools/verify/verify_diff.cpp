// verify diff: compares two checkpoints as models, whatever their layouts.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/verify/checkpoint_diff.h"
#include "tools/common/flag_groups/checkpoint_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/verify/problems.h"
#include "tools/verify/verify_programs.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

/// "A: gpt/iter_0005000 (TP 2, PP 2, legacy)"
std::string layout_text(std::string_view side, const checkpoint::MegatronCheckpoint& checkpoint) {
  const int64_t chunks = checkpoint.virtual_pipeline_model_parallel_size();
  const int64_t experts = checkpoint.expert_model_parallel_size();
  return fmt::format("{}: {} (TP {}, PP {}{}{}, {})", side, checkpoint.folder().folder,
                     checkpoint.tensor_model_parallel_size(),
                     checkpoint.pipeline_model_parallel_size(),
                     chunks > 1 ? fmt::format(", VPP {}", chunks) : "",
                     experts > 1 ? fmt::format(", EP {}", experts) : "",
                     model::name_family_text(checkpoint.family()));
}

std::string difference_text(const checkpoint::TensorDifference& difference) {
  const checkpoint::ElementDifferences& found = difference.found;
  return fmt::format("{} {}{}: {} in A, {} in B ({} of {} elements; max abs {:.3g}, rel {:.3g})",
                     difference.name, difference.kind, checkpoint::shape_text(difference.index),
                     found.first_a, found.first_b, found.count, difference.elements, found.max_abs,
                     found.max_rel);
}

void print_text(const checkpoint::CheckpointDiff& diff) {
  for (const std::string& name : diff.only_in_a) fmt::print("{}: only in A\n", name);
  for (const std::string& name : diff.only_in_b) fmt::print("{}: only in B\n", name);
  for (const checkpoint::FieldDifference& field : diff.field_differences) {
    fmt::print("{}: {} in A, {} in B\n", field.field, field.a, field.b);
  }
  for (const checkpoint::TensorDifference& difference : diff.tensor_differences) {
    fmt::print("{}\n", difference_text(difference));
  }
  for (const std::string& text : diff.notes) note(text);
  if (!diff.equal()) return;
  fmt::print("equal ({} parameters, {} tensors, {} elements)\n", diff.parameters, diff.tensors,
             diff.elements);
}

/// null for NaN and Inf, which JSON does not have.
ordered_json difference_json(const checkpoint::TensorDifference& difference) {
  ordered_json object;
  object["name"] = difference.name;
  object["kind"] = difference.kind;
  object["index"] = difference.index;
  object["a"] = difference.found.first_a;
  object["b"] = difference.found.first_b;
  object["count"] = difference.found.count;
  object["elements"] = difference.elements;
  object["max_abs"] = difference.found.max_abs;
  object["max_rel"] = difference.found.max_rel;
  return object;
}

ordered_json layout_json(const checkpoint::MegatronCheckpoint& checkpoint) {
  ordered_json object;
  object["folder"] = checkpoint.folder().folder;
  object["tensor_model_parallel_size"] = checkpoint.tensor_model_parallel_size();
  object["pipeline_model_parallel_size"] = checkpoint.pipeline_model_parallel_size();
  object["virtual_pipeline_model_parallel_size"] =
      checkpoint.virtual_pipeline_model_parallel_size();
  object["expert_model_parallel_size"] = checkpoint.expert_model_parallel_size();
  object["names"] = model::name_family_text(checkpoint.family());
  return object;
}

ordered_json diff_json(const checkpoint::MegatronCheckpoint& a,
                       const checkpoint::MegatronCheckpoint& b,
                       const checkpoint::CheckpointDiff& diff) {
  ordered_json object = json_object();
  object["a"] = layout_json(a);
  object["b"] = layout_json(b);
  object["equal"] = diff.equal();
  object["parameters"] = diff.parameters;
  object["tensors"] = diff.tensors;
  object["elements"] = diff.elements;
  object["notes"] = notes_json(diff.notes);
  object["only_in_a"] = diff.only_in_a;
  object["only_in_b"] = diff.only_in_b;
  object["fields"] = ordered_json::array();
  for (const checkpoint::FieldDifference& field : diff.field_differences) {
    object["fields"].push_back({{"field", field.field}, {"a", field.a}, {"b", field.b}});
  }
  object["differences"] = ordered_json::array();
  for (const checkpoint::TensorDifference& difference : diff.tensor_differences) {
    object["differences"].push_back(difference_json(difference));
  }
  return object;
}

Result<checkpoint::MegatronCheckpoint> open(const std::string& path,
                                            const checkpoint::OpenCheckpointOptions& options) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder folder,
                       checkpoint::find_checkpoint(path));
  return checkpoint::MegatronCheckpoint::open(folder, options);
}

}  // namespace

int verify_diff_main(int argc, const char* const* argv) {
  std::string a_path, b_path;
  checkpoint::CheckpointDiffOptions options;
  CheckpointFlags checkpoint_flags;
  int64_t workers = available_processors();
  bool json = false;
  bool no_optim = false;
  Flags flags("verify diff",
              "compares two checkpoints as models, whatever their parallel sizes, names, padding "
              "and dtypes; exit code 0 if they are equal, 1 if not.");
  flags.examples({"verify diff checkpoints checkpoints_tp2_pp4",
                  "verify diff checkpoints other --no-optim --rtol 1e-3 --name 'layers\\.3\\.'"});
  flags.positional("A", &a_path, "first checkpoint");
  flags.positional("B", &b_path, "second checkpoint");
  flags.group("Comparison");
  flags.value("--name", &options.name_pattern, "REGEX",
              "compare only parameters whose name matches, such as layers\\.3\\.");
  flags.toggle("--no-optim", &no_optim, "do not compare optimizer and scheduler");
  flags
      .value("--vocab-size", &options.vocab_size, "N",
             "vocabulary size without padding: differences in later rows only give a note")
      .range(1, int64_t{1} << 32);
  flags
      .value("--atol", &options.tolerance.atol, "X",
             "absolute tolerance: |a - b| <= X + rtol * |b| is equal")
      .real_range(0, 1e30);
  flags.value("--rtol", &options.tolerance.rtol, "Y", "relative tolerance, see --atol")
      .real_range(0, 1e30);
  checkpoint_flags.declare(flags);
  flags.group("Running");
  flags.toggle("--json", &json, "print one JSON object");
  flags.value("--workers", &workers, "N", "threads that read tensors").range(1, kMaxWorkers);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;

  Result<checkpoint::OpenCheckpointOptions> open_options = checkpoint_flags.options();
  if (!open_options.has_value()) return fail(open_options.error());
  open_options->ignore_optimizer = no_optim;
  const Result<checkpoint::MegatronCheckpoint> a = open(a_path, *open_options);
  if (!a.has_value()) return fail(no_checkpoint(a_path, a.error()));
  const Result<checkpoint::MegatronCheckpoint> b = open(b_path, *open_options);
  if (!b.has_value()) return fail(no_checkpoint(b_path, b.error()));
  ProgressBar bar(0);
  // The opener needs to know, too: an optimizer that cannot be read must not hinder a comparison
  // without it.
  options.compare_optimizer = !no_optim;
  options.workers = static_cast<int>(workers);
  options.progress = bar.callback();
  const Result<checkpoint::CheckpointDiff> diff = checkpoint::diff_checkpoints(*a, *b, options);
  bar.clear();
  if (!diff.has_value()) return fail(diff.error());
  if (json) {
    print_json(diff_json(*a, *b, *diff));
  } else {
    fmt::print("{}\n{}\n", layout_text("A", *a), layout_text("B", *b));
    print_text(*diff);
  }
  if (diff->equal()) return 0;
  const size_t differences = diff->only_in_a.size() + diff->only_in_b.size() +
                             diff->field_differences.size() + diff->tensor_differences.size();
  return fail(make_error(StatusCode::kCorruption, "{} and {} differ in {} {}", a_path, b_path,
                         differences, differences == 1 ? "point" : "points"));
}

}  // namespace meg::tools
