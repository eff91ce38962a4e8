#include "tools/checkpoint_util/checkpoint_util_huggingface.h"

#include <fmt/format.h>

#include "libmeg/base/stopwatch.h"
#include "libmeg/checkpoint/convert/export_huggingface.h"
#include "tools/checkpoint_util/checkpoint_util_report.h"
#include "tools/common/byte_size.h"
#include "tools/common/checkpoint_tokenizer.h"
#include "tools/common/progress_bar.h"

namespace meg::tools {
namespace {

void print_plan(const checkpoint::MegatronCheckpoint& checkpoint,
                const checkpoint::ExportPlan& plan, UtilReport& report) {
  size_t tensors = 0;
  for (const checkpoint::ExportedFile& file : plan.files) tensors += file.copies.size();
  report.line(
      fmt::format("checkpoint: {}, {}", checkpoint.folder().folder, source_text(checkpoint)));
  report.line(fmt::format("target: Hugging Face ({}), {} parameters", plan.class_name,
                          plan.parameter_count));
  report.line(
      fmt::format("vocabulary rows: {} -> {}", plan.source_vocab_rows, plan.target_vocab_rows));
  report.line(fmt::format("tensors: {}, {} to read, {} to write", tensors,
                          byte_size_text(plan.source_bytes()),
                          byte_size_text(plan.target_bytes())));
  for (const checkpoint::ExportedFile& file : plan.files) {
    report.line(fmt::format("file: {}, {}", file.name,
                            byte_size_text(static_cast<int64_t>(file.layout.file_size))));
  }
  report.notes(plan.notes);
}

}  // namespace

Status check_loader(const CheckpointUtilArguments& arguments,
                    const checkpoint::CheckpointFolder& folder) {
  const bool is_huggingface = folder.format == checkpoint::CheckpointFormat::kHuggingFace;
  const bool asks_for_it = is_huggingface_loader(arguments.loader.value_or(""));
  const bool asks_for_other = arguments.loader.has_value() && !asks_for_it;
  if (is_huggingface ? !asks_for_other : !asks_for_it) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a checkpoint for --loader {}, found the format {}", folder.folder,
                    *arguments.loader, checkpoint::checkpoint_format_text(folder.format));
}

Status export_huggingface(const CheckpointUtilArguments& arguments,
                          const checkpoint::MegatronCheckpoint& checkpoint, UtilReport& report) {
  checkpoint::ExportOptions options;
  MEG_ASSIGN_OR_RETURN(options.true_vocab_size, true_vocab_size(arguments, checkpoint));
  if (arguments.max_shard_size.has_value()) {
    MEG_ASSIGN_OR_RETURN(const int64_t shard_bytes, parse_byte_size(*arguments.max_shard_size));
    options.max_shard_bytes = static_cast<uint64_t>(shard_bytes);
  }
  options.tokenizer_vocab_size = arguments.tokenizer_vocab_size;
  options.tokenizer = exported_tokenizer(checkpoint, ExportedFiles::kAny);
  options.params_dtype = params_dtype(arguments);
  MEG_ASSIGN_OR_RETURN(const checkpoint::ExportPlan plan,
                       checkpoint::plan_export(checkpoint, options));
  report.set("parameters", plan.parameter_count);
  print_plan(checkpoint, plan, report);
  if (arguments.dry_run) return Status();
  report.line("saving Hugging Face model to " + arguments.save_dir);
  checkpoint::TransferOptions transfer;
  MEG_ASSIGN_OR_RETURN(transfer.buffer_bytes, buffer_bytes(arguments.memory_budget));
  transfer.check_crcs = !arguments.no_crc;
  ProgressBar bar(0);
  transfer.progress = bar.interruptible_callback();
  const Stopwatch watch;
  const Status saved = checkpoint::save_export(plan, arguments.save_dir, transfer);
  bar.clear();
  MEG_RETURN_IF_ERROR(saved);
  report.set("saved", arguments.save_dir);
  report.set("bytes", plan.target_bytes());
  report.set("seconds", watch.seconds());
  const std::string bytes = byte_size_text(plan.target_bytes());
  report.line(fmt::format("  successfully saved {} to {}", bytes, arguments.save_dir));
  report.line(fmt::format("wrote {} in {:.2f} s, including flushing to the device", bytes,
                          watch.seconds()));
  return Status();
}

}  // namespace meg::tools
