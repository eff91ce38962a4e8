#include "tools/checkpoint_util/checkpoint_util_huggingface.h"

#include <fmt/format.h>

#include "libmeg/base/stopwatch.h"
#include "libmeg/checkpoint/convert/export_huggingface.h"
#include "libmeg/checkpoint/convert/import_huggingface.h"
#include "tools/checkpoint_util/checkpoint_util_report.h"
#include "tools/common/byte_size.h"
#include "tools/common/interruption.h"
#include "tools/common/progress_bar.h"

namespace meg::tools {
namespace {

template <class Plan>
void print_tensors(const Plan& plan) {
  size_t tensors = 0;
  for (const auto& file : plan.files) tensors += file.copies.size();
  print(fmt::format("vocabulary rows: {} -> {}", plan.source_vocab_rows, plan.target_vocab_rows));
  print(fmt::format("tensors: {}, {} bytes to read, {} bytes to write", tensors,
                    with_commas(plan.source_bytes()), with_commas(plan.target_bytes())));
}

void print_file(const std::string& name, uint64_t bytes) {
  print(fmt::format("file: {}, {} bytes", name, with_commas(static_cast<int64_t>(bytes))));
}

/// Runs save(TransferOptions) under a progress bar.
template <class Save>
Status save_with_progress(const CheckpointUtilArguments& arguments, int64_t bytes, Save save) {
  checkpoint::TransferOptions options;
  MEG_ASSIGN_OR_RETURN(options.buffer_bytes, buffer_bytes(arguments.memory_budget));
  options.check_crcs = !arguments.no_crc;
  ProgressBar bar(0);
  options.progress = [&bar](const Progress& now) {
    bar.update(now);
    return !interrupted();
  };
  const Stopwatch watch;
  const Status saved = save(options);
  bar.clear();
  MEG_RETURN_IF_ERROR(saved);
  print(fmt::format("  successfully saved {} to {}", byte_size_text(bytes), arguments.save_dir));
  print(fmt::format("wrote {} in {:.2f} s, flushing to the device included", byte_size_text(bytes),
                    watch.seconds()));
  return Status();
}

Result<checkpoint::ImportOptions> import_options(const CheckpointUtilArguments& arguments) {
  checkpoint::ImportOptions options;
  options.sizes = {.tensor_model_parallel_size = arguments.target_tensor_size.value_or(1),
                   .pipeline_model_parallel_size = arguments.target_pipeline_size.value_or(1),
                   .virtual_pipeline_model_parallel_size = arguments.target_virtual_size};
  MEG_ASSIGN_OR_RETURN(options.true_vocab_size, true_vocab_size(arguments));
  MEG_ASSIGN_OR_RETURN(const checkpoint::OpenCheckpointOptions fallback,
                       arguments.checkpoint.options());
  if (const auto value = fallback.fallback("make_vocab_size_divisible_by")) {
    options.make_vocab_size_divisible_by = std::get<int64_t>(*value);
  }
  options.names = arguments.target_names == "legacy"
                      ? model::NameFamily::kLegacy
                      : model::mcore_family(arguments.saver_transformer_impl.value_or("local"));
  options.params_dtype = params_dtype(arguments);
  return options;
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

Status import_huggingface(const CheckpointUtilArguments& arguments, const std::string& folder) {
  if (arguments.target_format != "torch") {
    return make_error(
        StatusCode::kUnsupported,
        "{}: a Hugging Face model: expected --target-format torch, found {}: save it as "
        "torch first",
        folder, arguments.target_format);
  }
  MEG_ASSIGN_OR_RETURN(const checkpoint::HuggingFaceCheckpoint checkpoint,
                       checkpoint::open_huggingface_checkpoint(folder));
  MEG_ASSIGN_OR_RETURN(const checkpoint::ImportOptions options, import_options(arguments));
  MEG_ASSIGN_OR_RETURN(const checkpoint::ImportPlan plan,
                       checkpoint::plan_import(checkpoint, options));
  print(fmt::format("checkpoint: {}, Hugging Face ({}), {} parameters", folder,
                    checkpoint.config.architecture.class_name, with_commas(plan.parameter_count)));
  print("layout: " + layout_text(options.sizes.tensor_model_parallel_size,
                                 options.sizes.pipeline_model_parallel_size,
                                 options.sizes.virtual_pipeline_model_parallel_size));
  print_tensors(plan);
  for (const checkpoint::ImportedFile& file : plan.files)
    print_file(file.path, file.layout.file_size);
  for (const std::string& text : plan.notes) print("note: " + text);
  if (arguments.dry_run) return Status();
  print("saving release to " + arguments.save_dir);
  return save_with_progress(arguments, plan.target_bytes(),
                            [&](const checkpoint::TransferOptions& copying) {
                              return checkpoint::save_import(plan, arguments.save_dir, copying);
                            });
}

Status export_huggingface(const CheckpointUtilArguments& arguments,
                          const checkpoint::MegatronCheckpoint& checkpoint) {
  checkpoint::ExportOptions options;
  MEG_ASSIGN_OR_RETURN(options.true_vocab_size, true_vocab_size(arguments));
  MEG_ASSIGN_OR_RETURN(const int64_t shard_bytes, parse_byte_size(arguments.max_shard_size));
  options.max_shard_bytes = static_cast<uint64_t>(shard_bytes);
  options.params_dtype = params_dtype(arguments);
  MEG_ASSIGN_OR_RETURN(const checkpoint::ExportPlan plan,
                       checkpoint::plan_export(checkpoint, options));
  print(fmt::format("checkpoint: {}, {} names", checkpoint.folder().folder,
                    model::name_family_text(checkpoint.family())));
  print(fmt::format("target: Hugging Face ({}), {} parameters", plan.class_name,
                    with_commas(plan.parameter_count)));
  print_tensors(plan);
  for (const checkpoint::ExportedFile& file : plan.files)
    print_file(file.name, file.layout.file_size);
  for (const std::string& text : plan.notes) print("note: " + text);
  if (arguments.dry_run) return Status();
  print("saving Hugging Face model to " + arguments.save_dir);
  return save_with_progress(arguments, plan.target_bytes(),
                            [&](const checkpoint::TransferOptions& copying) {
                              return checkpoint::save_export(plan, arguments.save_dir, copying);
                            });
}

}  // namespace meg::tools
