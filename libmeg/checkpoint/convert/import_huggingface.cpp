#include "libmeg/checkpoint/convert/import_huggingface.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <utility>

#include "libmeg/checkpoint/convert/internal/imported_args.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/chunk_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/state_dict_tree.h"
#include "libmeg/checkpoint/state/gathered_sources.h"
#include "libmeg/checkpoint/training/training_tree.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/model/vocab_padding.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

using Source = std::shared_ptr<const TensorSource>;

constexpr const char* kArchiveName = "model_optim_rng";
constexpr const char* kReleaseName = "release";
constexpr const char* kTokenizerFolder = "tokenizer";
constexpr double kCheckpointVersion = 3.0;

class ImportPlanner {
 public:
  ImportPlanner(const HuggingFaceCheckpoint& checkpoint, const ImportOptions& options,
                model::ParameterTable table)
      : checkpoint_(checkpoint),
        options_(options),
        table_(std::move(table)),
        model_(checkpoint.model),
        dtype_(options.params_dtype.value_or(checkpoint.dtype)) {}

  Result<ImportPlan> plan() {
    MEG_RETURN_IF_ERROR(pad_vocabulary());
    for (const HuggingFaceParameter& parameter : checkpoint_.parameters) {
      merged_[parameter.name] = parameter.source;
      plan_.parameter_count += parameter.source->elements();
    }
    const model::ParallelSizes& sizes = options_.sizes;
    for (int64_t p = 0; p < sizes.pipeline_model_parallel_size; ++p) {
      MEG_ASSIGN_OR_RETURN(const std::vector<model::RankParameter> parameters,
                           model::rank_parameters(model_, sizes, p, options_.names, table_));
      MEG_RETURN_IF_ERROR(check_names(parameters));
      for (int64_t t = 0; t < sizes.tensor_model_parallel_size; ++t) {
        MEG_RETURN_IF_ERROR(add_file(parameters, t, p));
      }
    }
    plan_.source_folder = checkpoint_.folder;
    plan_.tokenizer_files = checkpoint_.tokenizer_files;
    plan_.notes = checkpoint_.notes;
    return std::move(plan_);
  }

 private:
  Status pad_vocabulary() {
    model_.make_vocab_size_divisible_by = options_.make_vocab_size_divisible_by;
    plan_.source_vocab_rows = model_.padded_vocab_size;
    MEG_ASSIGN_OR_RETURN(
        model_.padded_vocab_size,
        model::padded_vocab_size(options_.true_vocab_size.value_or(model_.padded_vocab_size),
                                 options_.make_vocab_size_divisible_by,
                                 options_.sizes.tensor_model_parallel_size));
    plan_.target_vocab_rows = model_.padded_vocab_size;
    return Status();
  }

  /// Whether the family can name them all.
  Status check_names(const std::vector<model::RankParameter>& parameters) const {
    for (const model::RankParameter& parameter : parameters) {
      const auto match = table_.match(parameter.name);
      const std::string& canonical = match.has_value() ? match->canonical : parameter.name;
      if (table_.spell(canonical, options_.names).has_value()) continue;
      if (parameter.name == model::kTiedCopyName) continue;
      return make_error(StatusCode::kUnsupported, "{}: {} names have no such parameter",
                        parameter.name, model::name_family_text(options_.names));
    }
    return Status();
  }

  Status add_file(const std::vector<model::RankParameter>& parameters, int64_t t, int64_t p) {
    ImportedFile file;
    file.path =
        fmt::format("{}/{}.pt", rank_folder_name(t, p, options_.sizes.pipeline_model_parallel_size),
                    kArchiveName);
    TrainingTree tree;
    std::vector<PickleId> pairs;
    const auto add = [&](std::string_view key, PickleId value) {
      pairs.push_back(tree.text(key));
      pairs.push_back(value);
    };
    add("args", tree.args(imported_args(checkpoint_, model_, options_, dtype_)));
    add("checkpoint_version", tree.graph().add_float(kCheckpointVersion));
    add("iteration", tree.graph().add_int(0));
    const int64_t chunks = options_.sizes.virtual_pipeline_model_parallel_size;
    for (int64_t c = 0; c < chunks; ++c) {
      add(chunks == 1 ? "model" : fmt::format("model{}", c),
          add_model(parameters, t, p, c, &tree, &file));
    }
    tree.content().root = tree.graph().add_dict(std::move(pairs));
    file.content = std::move(tree.content());
    MEG_ASSIGN_OR_RETURN(file.layout, lay_out(file.content, kArchiveName));
    plan_.files.push_back(std::move(file));
    return Status();
  }

  PickleId add_model(const std::vector<model::RankParameter>& parameters, int64_t t, int64_t p,
                     int64_t c, TrainingTree* tree, ImportedFile* file) const {
    const model::ParallelSizes& sizes = options_.sizes;
    const model::PipelineLayout layout{model_.num_layers, sizes.pipeline_model_parallel_size,
                                       sizes.virtual_pipeline_model_parallel_size};
    StateDictTree model(options_.names);
    for (const ChunkEntry& entry :
         chunk_entries(parameters, layout, p, c, options_.names, table_)) {
      if (!entry.parameter.has_value()) {
        model.add(entry.name, tree->graph().add_none());
        continue;
      }
      const model::RankParameter& parameter = parameters[*entry.parameter];
      const TensorCopy copy{.source = shard(parameter, t), .target_dtype = dtype_};
      const int storage = tree->content().add_storage(dtype_, copy.target_bytes());
      model.add(entry.name, tree->content().add_tensor(storage, parameter.shape));
      file->copies.push_back(copy);
    }
    return model.write(&tree->graph(), tree->content().global("collections", "OrderedDict"),
                       [tree](std::string_view text) { return tree->text(text); });
  }

  /// What tensor rank t holds of a parameter.
  Source shard(const model::RankParameter& parameter, int64_t t) const {
    const bool is_copy = parameter.name == model::kTiedCopyName;
    const Source& merged =
        merged_.at(is_copy ? "embedding.word_embeddings.weight" : parameter.name);
    const int64_t elements = std::accumulate(parameter.shape.begin(), parameter.shape.end(),
                                             int64_t{1}, std::multiplies<>());
    switch (parameter.partition) {
      case model::Partition::kReplicated:
        return merged;
      case model::Partition::kColumns: {
        const int64_t columns = parameter.shape[1];
        const int64_t ranks = options_.sizes.tensor_model_parallel_size;
        return columns_of(merged, columns * ranks, t * columns, columns);
      }
      case model::Partition::kVocabulary:
        return part_of(padded(merged), t * elements, elements);
      case model::Partition::kGated:
        if (!model_.gated_linear_unit) break;
        return concatenated(
            {part_of(merged, t * elements / 2, elements / 2),
             part_of(merged, (merged->elements() + t * elements) / 2, elements / 2)});
      case model::Partition::kQkv:
      case model::Partition::kRows:
        break;
    }
    return part_of(merged, t * elements, elements);
  }

  /// A table with as many rows as the target's: its last row again, as Megatron pads.
  Source padded(const Source& table) const {
    const int64_t wanted = model_.padded_vocab_size * model_.hidden_size;
    if (wanted <= table->elements()) return part_of(table, 0, wanted);
    std::vector<Source> parts{table};
    const Source last = part_of(table, table->elements() - model_.hidden_size, model_.hidden_size);
    const int64_t rows = (wanted - table->elements()) / model_.hidden_size;
    parts.insert(parts.end(), static_cast<size_t>(rows), last);
    return concatenated(std::move(parts));
  }

  const HuggingFaceCheckpoint& checkpoint_;
  const ImportOptions& options_;
  model::ParameterTable table_;
  model::GptConfig model_;  ///< As it is written.
  DType dtype_;
  std::map<std::string, Source> merged_;
  ImportPlan plan_;
};

/// A storage of a torch file in the making.
class StorageSink final : public TensorSink {
 public:
  StorageSink(TorchFileWriter* writer, int storage, uint64_t bytes)
      : TensorSink(bytes), writer_(writer), storage_(storage) {}

  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    return writer_->write(storage_, offset, bytes);
  }

  bool wants_crc() const override { return true; }

  void set_crc(uint32_t crc) override { writer_->set_crc(storage_, crc); }

 private:
  TorchFileWriter* writer_;
  int storage_;
};

Status write_files(const ImportPlan& plan, const fs::path& folder, const TransferOptions& options) {
  std::vector<TorchFileWriter> writers;
  writers.reserve(plan.files.size());
  std::vector<TensorCopy> copies;
  std::vector<std::unique_ptr<TensorSink>> sinks;
  for (const ImportedFile& file : plan.files) {
    const fs::path path = folder / file.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return errno_error(error.value(), "cannot create " + path.parent_path().string());
    MEG_ASSIGN_OR_RETURN(auto writer,
                         TorchFileWriter::create(path.string(), file.content, file.layout));
    writers.push_back(std::move(writer));
    for (size_t i = 0; i < file.copies.size(); ++i) {
      copies.push_back(file.copies[i]);
      sinks.push_back(std::make_unique<StorageSink>(&writers.back(), static_cast<int>(i),
                                                    file.copies[i].target_bytes()));
    }
  }
  MEG_RETURN_IF_ERROR(run_copies(copies, sinks, options));
  for (TorchFileWriter& writer : writers) MEG_RETURN_IF_ERROR(writer.finish());
  return Status();
}

}  // namespace

int64_t ImportPlan::source_bytes() const {
  int64_t bytes = 0;
  for (const ImportedFile& file : files) {
    for (const TensorCopy& copy : file.copies) bytes += copy.source->bytes();
  }
  return bytes;
}

int64_t ImportPlan::target_bytes() const {
  int64_t bytes = 0;
  for (const ImportedFile& file : files) bytes += static_cast<int64_t>(file.layout.file_size);
  return bytes;
}

Result<ImportPlan> plan_import(const HuggingFaceCheckpoint& checkpoint,
                               const ImportOptions& options) {
  MEG_ASSIGN_OR_RETURN(model::ParameterTable table, model::ParameterTable::gpt());
  return ImportPlanner(checkpoint, options, std::move(table)).plan();
}

Status save_import(const ImportPlan& plan, const std::string& save_dir,
                   const TransferOptions& options) {
  std::error_code error;
  if (fs::equivalent(save_dir, plan.source_folder, error)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a save-dir apart from the model that is read, found the same",
                      save_dir);
  }
  MEG_ASSIGN_OR_RETURN(io::AtomicFolder folder,
                       io::AtomicFolder::create(join_path(save_dir, kReleaseName)));
  const fs::path staging = folder.staging_path();
  MEG_RETURN_IF_ERROR(write_files(plan, staging, options));
  MEG_RETURN_IF_ERROR(copy_tokenizer_files(plan.source_folder, plan.tokenizer_files,
                                           (staging / kTokenizerFolder).string()));
  MEG_RETURN_IF_ERROR(folder.commit());
  return write_tracker(save_dir, std::nullopt);
}

}  // namespace meg::checkpoint
