#include "libmeg/checkpoint/convert/export_huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "libmeg/checkpoint/container/safetensors/safetensors_file.h"
#include "libmeg/checkpoint/container/safetensors/shard_index.h"
#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/row_runs.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/check_architecture.h"
#include "libmeg/checkpoint/dialects/mp_rank/check_tied_copy.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"
#include "libmeg/checkpoint/state/assembled_source.h"
#include "libmeg/checkpoint/state/concatenated_source.h"
#include "libmeg/checkpoint/state/converted_source.h"
#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/megatron/argument_values.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

using Source = std::shared_ptr<const TensorSource>;

constexpr std::string_view kWordEmbeddings = "embedding.word_embeddings.weight";
constexpr const char* kIndexName = "model.safetensors.index.json";
/// Bytes of a small file that are copied at once.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

/// Args of experts that correspond to keys of config.json, or that only determine how experts are
/// stored.
bool is_written_of_experts(std::string_view name) {
  constexpr std::string_view kNames[] = {"num_experts",
                                         "moe_ffn_hidden_size",
                                         "moe_router_topk",
                                         "moe_router_pre_softmax",
                                         "moe_aux_loss_coeff",
                                         "moe_grouped_gemm",
                                         "moe_shared_expert_intermediate_size",
                                         "moe_shared_expert_gate"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool is_norm_weight(std::string_view parameter) { return parameter.ends_with("norm.weight"); }

/// Refuses args of the model that correspond to no key of config.json, unless they have their
/// default.
Status check_args(const MegatronCheckpoint& checkpoint) {
  if (!checkpoint.args(0).has_value()) return Status();
  const auto rows = megatron::argument_rows(megatron::ArgumentFamily::kTraining);
  const auto defaults = megatron::ArgumentValues::defaults(rows);
  const megatron::FieldLookup run = [&](std::string_view name) {
    const auto* row = megatron::find_argument(megatron::ArgumentFamily::kTraining, name);
    // What this library reads is judged by the writer of config.json and passes here, as it is
    // compared with itself; any other arg must have Megatron's default.
    const bool is_read = row == nullptr || !row->help.empty() || is_written_of_experts(name);
    return is_read ? checkpoint.described_arg(name) : defaults.field(name);
  };
  return check_architecture(checkpoint, run, "no model of Hugging Face");
}

/// Plans files of transformers from a model. Two directions are checked: each tensor that the class
/// expects must be among the parameters, and each parameter must be taken by a tensor
/// (check_all_taken()): a bias that the class has no place for would otherwise be lost without a
/// word.
class ExportPlanner {
 public:
  ExportPlanner(const MegatronCheckpoint& checkpoint, const ExportOptions& options)
      : checkpoint_(checkpoint), options_(options), model_(checkpoint.config()) {
    for (const LogicalParameter& parameter : checkpoint.parameters()) {
      parameters_[parameter.name] = &parameter;
    }
  }

  Result<ExportPlan> plan() {
    MEG_RETURN_IF_ERROR(check_args(checkpoint_));
    MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint_));
    MEG_RETURN_IF_ERROR(choose_vocab_rows());
    const megatron::FieldLookup args = [this](std::string_view name) {
      return checkpoint_.described_arg(name);
    };
    const DType dtype = target_dtype(*parameters_.at(std::string(kWordEmbeddings)));
    MEG_ASSIGN_OR_RETURN(const KeptKeys kept, kept_keys_of_source());
    MEG_ASSIGN_OR_RETURN(const HuggingFaceConfigText config,
                         write_huggingface_config(model_, args, dtype, kept));
    plan_.config_json = config.json;
    plan_.class_name = config.architecture.class_name;
    adds_one_to_norms_ = config.adds_one_to_norms;
    MEG_ASSIGN_OR_RETURN(const std::vector<model::HuggingFaceTensor> tensors,
                         model::hugging_face_tensors(config.architecture.family, model_));
    MEG_RETURN_IF_ERROR(add_tensors(tensors));
    plan_.tokenizer = options_.tokenizer;
    for (const auto& notes :
         {std::span<const std::string>(plan_.tokenizer.notes), checkpoint_.notes()}) {
      plan_.notes.insert(plan_.notes.end(), notes.begin(), notes.end());
    }
    plan_.source = checkpoint_.folder();
    return std::move(plan_);
  }

 private:
  Status choose_vocab_rows() {
    const auto embedding = parameters_.find(std::string(kWordEmbeddings));
    if (embedding == parameters_.end()) {
      return make_error(StatusCode::kCorruption, "{}: expected {}, found none",
                        checkpoint_.folder().folder, kWordEmbeddings);
    }
    plan_.source_vocab_rows = embedding->second->shape[0];
    const std::optional<int64_t> tokenizer = tokenizer_size_of_args(checkpoint_);
    std::optional<int64_t> vocab_size = options_.true_vocab_size;
    if (!vocab_size.has_value() && options_.tokenizer_vocab_size) {
      if (!tokenizer.has_value()) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: args: expected vocab_size, the tokenizer's, found none",
                          checkpoint_.folder().folder);
      }
      vocab_size = tokenizer;
    }
    if (vocab_size.has_value()) {
      MEG_RETURN_IF_ERROR(check_true_vocab_size(checkpoint_, *vocab_size, plan_.source_vocab_rows));
    } else {
      vocab_size = unpadded_vocab_size(checkpoint_, plan_.source_vocab_rows);
      if (vocab_size.has_value() && tokenizer.has_value() && *vocab_size > *tokenizer) {
        plan_.notes.push_back(fmt::format(
            "the base model's {} vocabulary rows are kept, though the tokenizer has {} tokens; "
            "`tokenizer_vocab_size` leaves out the others",
            *vocab_size, *tokenizer));
      }
    }
    plan_.target_vocab_rows = vocab_size.value_or(plan_.source_vocab_rows);
    // Written without padding: transformers' vocab_size is the number of rows.
    model_.padded_vocab_size = plan_.target_vocab_rows;
    if (!vocab_size.has_value()) {
      plan_.notes.emplace_back(
          "the vocabulary's padding rows are exported; `true_vocab_size` leaves them out");
    }
    return Status();
  }

  /// Of the config.json that the model came with, or of its tokenizer.
  Result<KeptKeys> kept_keys_of_source() {
    if (const auto path = source_config_path(checkpoint_.folder())) {
      MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(*path));
      return kept_keys(file.text(), *path);
    }
    KeptKeys kept;
    const auto add = [&kept](const char* key, const std::optional<int64_t>& id) {
      kept[key] = id.has_value() ? std::to_string(*id) : "null";
    };
    // Written where they are not known, too: transformers' defaults are ids of other tokenizers.
    add("bos_token_id", options_.tokenizer.ids.bos);
    add("eos_token_id", options_.tokenizer.ids.eos);
    add("pad_token_id", options_.tokenizer.ids.pad);
    if (!options_.tokenizer.ids.eos.has_value()) {
      plan_.notes.emplace_back(
          "config.json: eos_token_id null: no tokenizer says which token ends a text, so that "
          "generation with transformers does not stop at one");
    }
    return kept;
  }

  DType target_dtype(const LogicalParameter& parameter) const {
    return options_.params_dtype.value_or(parameter.tensors[0].dtype);
  }

  Status add_tensors(const std::vector<model::HuggingFaceTensor>& tensors) {
    std::vector<SafetensorsTensor> described;
    std::vector<TensorCopy> copies;
    std::set<std::string> taken;
    for (const model::HuggingFaceTensor& tensor : tensors) {
      const auto found = parameters_.find(tensor.parameter);
      if (found == parameters_.end()) {
        return make_error(StatusCode::kCorruption, "{}: expected parameter {}, found none",
                          checkpoint_.folder().folder, tensor.parameter);
      }
      taken.insert(tensor.parameter);
      const DType dtype = target_dtype(*found->second);
      if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16) {
        return make_error(StatusCode::kUnsupported,
                          "{}: {}: expected type float32, float16 or bfloat16, found {}",
                          checkpoint_.folder().folder, tensor.parameter, dtype_name(dtype));
      }
      MEG_ASSIGN_OR_RETURN(const Source merged, merged_weight(*found->second));
      Source source = source_of(tensor, merged);
      if (adds_one_to_norms_ && is_norm_weight(tensor.parameter)) {
        source = converted(std::move(source), dtype, /*added=*/1);
      }
      copies.push_back({.source = std::move(source), .target_dtype = dtype});
      described.push_back({.name = tensor.name, .dtype = dtype, .shape = tensor.shape});
      plan_.parameter_count += copies.back().source->elements();
    }
    MEG_RETURN_IF_ERROR(check_all_taken(taken));
    return add_files(described, copies);
  }

  Status check_all_taken(const std::set<std::string>& taken) const {
    for (const auto& [name, parameter] : parameters_) {
      if (taken.contains(name)) continue;
      return make_error(StatusCode::kUnsupported, "{}: {}: {} has no such parameter",
                        checkpoint_.folder().folder, name, plan_.class_name);
    }
    return Status();
  }

  /// Row-major, the vocabulary without padding.
  Result<Source> merged_weight(const LogicalParameter& parameter) const {
    const LogicalTensor& weight = parameter.tensors[0];
    MEG_ASSIGN_OR_RETURN(Source merged,
                         assemble(weight.dtype, parameter.axes.sizes, weight.pieces));
    if (parameter.partition != model::Partition::kVocabulary) return merged;
    return part_of(std::move(merged), 0, plan_.target_vocab_rows * parameter.shape[1]);
  }

  static Source source_of(const model::HuggingFaceTensor& tensor, const Source& merged) {
    const int64_t row = row_elements(tensor);
    std::vector<Source> parts;
    for (const RowRun& run : row_runs(tensor)) {
      parts.push_back(part_of(merged, run.parameter_row * row, run.rows * row));
    }
    Source source = concatenated(std::move(parts));
    if (!tensor.is_transposed) return source;
    return transposed_source(std::move(source), tensor.shape[0], tensor.shape[1]);
  }

  Status add_files(const std::vector<SafetensorsTensor>& tensors,
                   const std::vector<TensorCopy>& copies) {
    std::vector<uint64_t> bytes;
    uint64_t total = 0;
    for (const TensorCopy& copy : copies) {
      bytes.push_back(copy.target_bytes());
      total += bytes.back();
    }
    const std::vector<size_t> shards = split_into_shards(bytes, options_.max_shard_bytes);
    const size_t count = shards.back() + 1;
    ShardIndex index;
    for (size_t shard = 0, i = 0; shard < count; ++shard) {
      ExportedFile file;
      file.name = shard_file_name(shard, count);
      std::vector<SafetensorsTensor> held;
      for (; i < tensors.size() && shards[i] == shard; ++i) {
        held.push_back(tensors[i]);
        file.copies.push_back(copies[i]);
        index.files[tensors[i].name] = file.name;
      }
      // Versions of transformers refuse files of safetensors that do not say whose they are.
      const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}};
      MEG_ASSIGN_OR_RETURN(file.layout, lay_out_safetensors(held, metadata));
      plan_.files.push_back(std::move(file));
    }
    if (count > 1) {
      plan_.index_json =
          shard_index_json(index, total, static_cast<uint64_t>(plan_.parameter_count));
    }
    return Status();
  }

  const MegatronCheckpoint& checkpoint_;
  const ExportOptions& options_;
  model::GptConfig model_;  ///< As it is written: its vocabulary without padding.
  std::map<std::string, const LogicalParameter*> parameters_;
  bool adds_one_to_norms_ = false;
  ExportPlan plan_;
};

/// The file of weights, read as run_copies() would fill it.
VirtualFile weights_file(const ExportedFile& file) {
  std::vector<VirtualFile::Part> parts;
  parts.push_back({.offset = 0, .source = text_source(file.layout.head)});
  for (size_t i = 0; i < file.copies.size(); ++i) {
    const TensorCopy& copy = file.copies[i];
    const bool is_converted = copy.source->dtype() != copy.target_dtype;
    parts.push_back(
        {.offset = file.layout.offsets[i],
         .source = is_converted ? converted(copy.source, copy.target_dtype) : copy.source});
  }
  return {file.name, std::move(parts)};
}

// Nothing is flushed here: the folder's commit flushes all of its files together.
Status write_small_file(const VirtualFile& file, const fs::path& folder) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile written,
                       io::AtomicFile::create((folder / file.name()).string()));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min(kPieceBytes, file.size() - at));
    MEG_RETURN_IF_ERROR(file.read(at, piece));
    MEG_RETURN_IF_ERROR(written.write(piece));
  }
  return written.commit(io::AtomicFile::Flush::kNothing);
}

Status write_weights(const ExportPlan& plan, const fs::path& folder,
                     const TransferOptions& options) {
  std::vector<SafetensorsWriter> writers;
  writers.reserve(plan.files.size());
  std::vector<TensorCopy> copies;
  std::vector<std::unique_ptr<TensorSink>> sinks;
  for (const ExportedFile& file : plan.files) {
    MEG_ASSIGN_OR_RETURN(auto writer,
                         SafetensorsWriter::create((folder / file.name).string(), file.layout));
    writers.push_back(std::move(writer));
    for (size_t i = 0; i < file.copies.size(); ++i) {
      copies.push_back(file.copies[i]);
      sinks.push_back(
          file_sink(writers.back().file(), file.layout.offsets[i], file.layout.bytes[i]));
    }
  }
  MEG_RETURN_IF_ERROR(run_copies(copies, sinks, options));
  for (SafetensorsWriter& writer : writers) MEG_RETURN_IF_ERROR(writer.finish());
  return Status();
}

/// A folder of anything else than a model is not replaced.
Status check_replaceable(const std::string& save_dir) {
  std::error_code error;
  if (!fs::exists(save_dir, error)) return Status();
  MEG_ASSIGN_OR_RETURN(const FolderEntries entries, FolderEntries::list(save_dir));
  if (entries.empty() || entries.has_file(kConfigName)) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a new or empty folder, or one with {} to be replaced, found "
                    "another",
                    save_dir, kConfigName);
}

}  // namespace

int64_t ExportPlan::source_bytes() const {
  int64_t bytes = 0;
  for (const ExportedFile& file : files) {
    for (const TensorCopy& copy : file.copies) bytes += copy.source->bytes();
  }
  return bytes;
}

int64_t ExportPlan::target_bytes() const {
  int64_t bytes = 0;
  for (const ExportedFile& file : files) bytes += static_cast<int64_t>(file.layout.file_size);
  return bytes;
}

Result<ExportPlan> plan_export(const MegatronCheckpoint& checkpoint, const ExportOptions& options) {
  return ExportPlanner(checkpoint, options).plan();
}

Result<std::vector<VirtualFile>> virtual_files(const ExportPlan& plan) {
  std::vector<VirtualFile> files;
  for (const ExportedFile& file : plan.files) files.push_back(weights_file(file));
  if (!plan.index_json.empty()) files.push_back(text_file(kIndexName, plan.index_json));
  if (!plan.tokenizer.config_json.empty()) {
    files.push_back(text_file("tokenizer_config.json", plan.tokenizer.config_json));
  }
  std::vector<TokenizerFile> copied = plan.tokenizer.files.value_or(std::vector<TokenizerFile>());
  if (!plan.tokenizer.files.has_value()) {
    MEG_ASSIGN_OR_RETURN(copied, tokenizer_files(plan.source));
  }
  for (const TokenizerFile& file : copied) {
    // The model has one of its own.
    if (file.name == kConfigName) continue;
    if (std::ranges::find(files, file.name, &VirtualFile::name) != files.end()) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected files of a tokenizer, found one with a name of the model's",
                        file.path);
    }
    MEG_ASSIGN_OR_RETURN(VirtualFile opened, copied_file(file.name, file.path));
    files.push_back(std::move(opened));
  }
  files.push_back(text_file(kConfigName, plan.config_json));
  return files;
}

Status save_export(const ExportPlan& plan, const std::string& save_dir,
                   const TransferOptions& options) {
  MEG_RETURN_IF_ERROR(check_apart(plan.source, save_dir, save_dir));
  MEG_RETURN_IF_ERROR(check_replaceable(save_dir));
  // A trailing slash would leave the staging folder without a name.
  const fs::path path = fs::path(save_dir).lexically_normal();
  const fs::path target = path.has_filename() ? path : path.parent_path();
  MEG_ASSIGN_OR_RETURN(io::AtomicFolder folder, io::AtomicFolder::create(target.string()));
  const fs::path staging = folder.staging_path();
  MEG_ASSIGN_OR_RETURN(const std::vector<VirtualFile> files, virtual_files(plan));
  MEG_RETURN_IF_ERROR(write_weights(plan, staging, options));
  for (const VirtualFile& file : std::span(files).subspan(plan.files.size())) {
    MEG_RETURN_IF_ERROR(write_small_file(file, staging));
  }
  return folder.commit();
}

}  // namespace meg::checkpoint
