// Reshapes checkpoints to other tensor- and pipeline-parallel sizes, and converts models of Hugging
// Face to them and back. Stands for Megatron-LM tools/checkpoint_util.py and
// tools/checkpoint/convert.py.

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/convert/save_torch_dist.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "tools/checkpoint_util/checkpoint_util_flags.h"
#include "tools/checkpoint_util/checkpoint_util_huggingface.h"
#include "tools/checkpoint_util/checkpoint_util_report.h"
#include "tools/common/byte_size.h"
#include "tools/common/found_instead.h"
#include "tools/common/interruption.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

Result<checkpoint::MegatronCheckpoint> open_checkpoint(const CheckpointUtilArguments& arguments,
                                                       const checkpoint::CheckpointFolder& folder) {
  MEG_ASSIGN_OR_RETURN(checkpoint::OpenCheckpointOptions options, arguments.checkpoint.options());
  // A Hugging Face model has none.
  options.ignore_optimizer = arguments.no_optim || arguments.target_format == "huggingface";
  options.check_crcs = !arguments.no_crc;
  return checkpoint::MegatronCheckpoint::open(folder, options);
}

void print_vocabulary(const checkpoint::MegatronCheckpoint& checkpoint,
                      const checkpoint::ReshardPlan& plan, const UtilReport& report) {
  const int64_t rows = plan.target_padded_vocab_size;
  if (plan.true_vocab_size.has_value()) {
    report.line(fmt::format(" > padded vocab (size: {}) with {} dummy tokens (new size: {})",
                            *plan.true_vocab_size, rows - *plan.true_vocab_size, rows));
  }
  std::string change = "kept";
  if (plan.dropped_padding_rows > 0) {
    // Tables of Hugging Face have no padding rows.
    const bool is_padded = checkpoint.folder().format != checkpoint::CheckpointFormat::kHuggingFace;
    change = fmt::format("{} {}rows and their optimizer state are dropped",
                         plan.dropped_padding_rows, is_padded ? "padding " : "");
  } else if (plan.added_padding_rows > 0) {
    change = fmt::format("{} padding rows are added", plan.added_padding_rows);
  }
  report.line(
      fmt::format("vocabulary rows: {} -> {} ({})", plan.source_padded_vocab_size, rows, change));
}

void print_plan(const checkpoint::MegatronCheckpoint& checkpoint,
                const checkpoint::ReshardOptions& options, const checkpoint::ReshardPlan& plan,
                UtilReport& report) {
  report.line(fmt::format("checkpoint: {}, {}, {} parameters", checkpoint.folder().folder,
                          source_text(checkpoint), plan.parameter_count));
  report.line(fmt::format(
      "layout: {} -> {}",
      layout_text(checkpoint.tensor_model_parallel_size(),
                  checkpoint.pipeline_model_parallel_size(),
                  checkpoint.virtual_pipeline_model_parallel_size(),
                  checkpoint.expert_model_parallel_size()),
      layout_text(options.tensor_model_parallel_size, options.pipeline_model_parallel_size,
                  options.virtual_pipeline_model_parallel_size,
                  options.expert_model_parallel_size)));
  print_vocabulary(checkpoint, plan, report);
  report.line(fmt::format("tensors: {}, {} to read, {} to write", plan.transfers.transfers.size(),
                          byte_size_text(plan.transfers.source_bytes()),
                          byte_size_text(plan.transfers.target_bytes())));
  for (const checkpoint::TransferTargetFile& file : plan.transfers.targets) {
    report.line(fmt::format("file: {}, {}", file.path,
                            byte_size_text(static_cast<int64_t>(file.layout.file_size))));
  }
  report.notes(plan.notes);
}

/// What reshaping makes.
std::string saved_folder(const checkpoint::MegatronCheckpoint& checkpoint,
                         const CheckpointUtilArguments& arguments) {
  return (std::filesystem::path(arguments.save_dir) / checkpoint::reshard_folder_name(checkpoint))
      .string();
}

/// bar: outlives the transfers.
Result<checkpoint::TransferOptions> transfer_options(const CheckpointUtilArguments& arguments,
                                                     ProgressBar* bar) {
  checkpoint::TransferOptions options;
  MEG_ASSIGN_OR_RETURN(options.buffer_bytes, buffer_bytes(arguments.memory_budget));
  options.check_crcs = !arguments.no_crc;
  options.progress = bar->interruptible_callback();
  return options;
}

Status save_dist(const checkpoint::MegatronCheckpoint& checkpoint,
                 const CheckpointUtilArguments& arguments, UtilReport& report) {
  report.line(
      fmt::format("checkpoint: {}, {}", checkpoint.folder().folder, source_text(checkpoint)));
  if (arguments.dry_run) return Status();
  ProgressBar bar(0);
  checkpoint::SaveTorchDistOptions options{
      .keep_optimizer = !arguments.no_optim,
      .distributed_optimizer = arguments.target_optimizer != "plain",
      .check_masters = !arguments.no_master_check,
      .expert_model_parallel_size = arguments.target_expert_size,
      .names = std::nullopt,
      .transfer = {}};
  MEG_ASSIGN_OR_RETURN(options.names, target_family(arguments, checkpoint));
  MEG_ASSIGN_OR_RETURN(options.transfer, transfer_options(arguments, &bar));
  const int64_t iteration = checkpoint.folder().is_release ? 0 : checkpoint.iteration().value_or(0);
  report.line(fmt::format("saving checkpoint at iteration {:7d} to {} in torch_dist format",
                          iteration, arguments.save_dir));
  const Result<checkpoint::SavedTorchDist> saved =
      checkpoint::save_torch_dist(checkpoint, arguments.save_dir, options);
  bar.clear();
  if (!saved.has_value()) return saved.error();
  report.notes(saved->notes);
  report.line(fmt::format("  successfully saved checkpoint at iteration {:7d} to {}", iteration,
                          arguments.save_dir));
  report.set("saved", saved_folder(checkpoint, arguments));
  report.set("bytes", saved->bytes);
  report.line(fmt::format("wrote {}", byte_size_text(static_cast<int64_t>(saved->bytes))));
  return Status();
}

Status reshape(const CheckpointUtilArguments& arguments,
               const checkpoint::MegatronCheckpoint& checkpoint, UtilReport& report) {
  // Check before the plan is made, which takes a while for large checkpoints, and with --dry-run,
  // too.
  if (!arguments.save_dir.empty()) {
    MEG_RETURN_IF_ERROR(checkpoint::check_save_dir(checkpoint, arguments.save_dir));
    if (!arguments.dry_run) note_new_folders(arguments.save_dir + "/");
  }
  // torch_dist has no plan to print: chunks are written as they are found.
  if (arguments.target_format == "torch_dist") return save_dist(checkpoint, arguments, report);
  MEG_ASSIGN_OR_RETURN(const checkpoint::ReshardOptions options,
                       reshard_options(arguments, checkpoint));
  MEG_ASSIGN_OR_RETURN(const checkpoint::ReshardPlan plan,
                       checkpoint::plan_reshard(checkpoint, options));
  ProgressBar bar(0);
  MEG_ASSIGN_OR_RETURN(const checkpoint::TransferOptions transfer,
                       transfer_options(arguments, &bar));
  report.set("parameters", plan.parameter_count);
  print_plan(checkpoint, options, plan, report);
  if (arguments.dry_run) return Status();
  const int64_t iteration = checkpoint.folder().is_release ? 0 : checkpoint.iteration().value_or(0);
  report.line(
      fmt::format("saving checkpoint at iteration {:7d} to {}", iteration, arguments.save_dir));
  checkpoint::SaveTimes times;
  const Status saved =
      // The bar is cleared before an error is printed.
      checkpoint::save_reshard(checkpoint, plan, arguments.save_dir, transfer, &times);
  bar.clear();
  MEG_RETURN_IF_ERROR(saved);
  report.line(fmt::format("  successfully saved checkpoint at iteration {:7d} to {}", iteration,
                          arguments.save_dir));
  report.set("saved", saved_folder(checkpoint, arguments));
  report_written(plan.transfers.target_bytes(), times, report);
  return Status();
}

Status run(const CheckpointUtilArguments& arguments, UtilReport& report) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder folder,
                       checkpoint::find_checkpoint(arguments.load_dir, arguments.iteration));
  MEG_RETURN_IF_ERROR(check_loader(arguments, folder));
  MEG_ASSIGN_OR_RETURN(const std::vector<std::string> left_out,
                       checkpoint::check_tokenizer_files(folder));
  for (const std::string& text : left_out) note(text);
  MEG_ASSIGN_OR_RETURN(const checkpoint::MegatronCheckpoint checkpoint,
                       open_checkpoint(arguments, folder));
  MEG_RETURN_IF_ERROR(arguments.checkpoint.check_against(checkpoint));
  report.set("checkpoint", folder.folder);
  report.set("notes", nlohmann::ordered_json::array());
  if (arguments.target_format == "huggingface") {
    return export_huggingface(arguments, checkpoint, report);
  }
  return reshape(arguments, checkpoint, report);
}

int main(int argc, const char* const* argv) {
  CheckpointUtilArguments arguments;
  if (const std::optional<int> code = parse_checkpoint_util(argc, argv, &arguments)) return *code;
  if (const Result<int64_t> budget = parse_byte_size(arguments.memory_budget);
      !budget.has_value()) {
    fail(budget.error().with_prefix("--memory-budget"));
    return 2;
  }
  stop_at_signals();
  UtilReport report(arguments.json);
  const Status status = run(arguments, report);
  if (!status.ok()) return fail(no_checkpoint(arguments.load_dir, status));
  report.finish();
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
