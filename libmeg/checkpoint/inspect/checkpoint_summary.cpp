#include "libmeg/checkpoint/inspect/checkpoint_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"
#include "libmeg/checkpoint/dialects/mp_rank/vocab_size_args.h"
#include "libmeg/checkpoint/inspect/internal/checkpoint_counts.h"

namespace meg::checkpoint {
namespace {

/// Refuses sizes that no cluster has before ranks are listed by them.
constexpr int64_t kMaxRanks = 1 << 20;

std::optional<int64_t> multiply_ranks(std::initializer_list<int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size < 1 || __builtin_mul_overflow(product, size, &product) || product > kMaxRanks) {
      return std::nullopt;
    }
  }
  return product;
}

/// Size of the rank files, or of the one file.
uint64_t budget_bytes(const CheckpointFolder& folder) {
  if (folder.format != CheckpointFormat::kSingleFile) return rank_file_bytes(folder);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(folder.folder, error);
  return error ? 0 : size;
}

/// Collects as much as possible: the whole model if the checkpoint can be opened as one, otherwise
/// its files one by one, with the error that prevented the former. A damaged rank must not hide the
/// others.
class Summarizer {
 public:
  Summarizer(const CheckpointFolder& folder, const SummaryOptions& options)
      : options_(options), budget_(budget_bytes(folder)) {
    summary_.folder = folder;
  }

  Result<CheckpointSummary> summarize() {
    open_whole();
    open_files();
    MEG_RETURN_IF_ERROR(check_something_is_readable());
    read_args();
    read_sizes();
    number_ranks();
    read_state();
    count_tensors(summary_);
    if (summary_.whole.has_value()) {
      summary_.true_vocab_size = options_.true_vocab_size;
      if (!summary_.true_vocab_size.has_value()) {
        summary_.true_vocab_size = vocab_size_of_args(*summary_.whole);
      }
      count_parameters(summary_);
      if (options_.true_vocab_size.has_value() && summary_.padded_vocab_size.has_value()) {
        MEG_RETURN_IF_ERROR(check_true_vocab_size(*summary_.whole, *options_.true_vocab_size,
                                                  *summary_.padded_vocab_size));
      }
    } else {
      MEG_RETURN_IF_ERROR(count_parameters_of_files(options_.open, summary_));
    }
    return std::move(summary_);
  }

 private:
  void open_whole() {
    if (summary_.folder.format == CheckpointFormat::kSingleFile) return;
    Result<MegatronCheckpoint> whole = MegatronCheckpoint::open(summary_.folder, options_.open);
    if (!whole.has_value()) {
      // An optimizer of an unknown form hides nothing of the model.
      summary_.whole_status = whole.error();
      if (whole.error().code() != StatusCode::kUnsupported) return;
      OpenCheckpointOptions options = options_.open;
      options.ignore_optimizer = true;
      whole = MegatronCheckpoint::open(summary_.folder, options);
    }
    if (whole.has_value()) {
      summary_.config = whole->config();
      summary_.whole.emplace(*std::move(whole));
    } else {
      summary_.whole_status = whole.error();
    }
  }

  void open_files() {
    const CheckpointFolder& folder = summary_.folder;
    if (folder.format == CheckpointFormat::kSingleFile) open_file(folder.folder);
    for (const RankFolder& rank : folder.ranks) {
      RankSummary& found = summary_.ranks.emplace_back();
      found.name = rank.name;
      found.files.push_back(open_file(rank.file));
      const std::filesystem::path beside = std::filesystem::path(rank.file).parent_path();
      for (const char* name : {"distrib_optim.pt", "optim.pt"}) {
        std::error_code ignored;
        if (!std::filesystem::is_regular_file(beside / name, ignored)) continue;
        found.files.push_back(open_file((beside / name).string()));
      }
    }
    if (has_dist_items(folder.format)) add_composed();
    // List the folder for formats whose files are not opened one by one.
    if (summary_.files.empty()) summary_.files = list_files(summary_.folder.folder);
    for (RankSummary& rank : summary_.ranks) {
      for (const int file : rank.files) {
        rank.bytes += summary_.files[static_cast<size_t>(file)].bytes;
      }
    }
    for (const FileSummary& file : summary_.files) summary_.bytes += file.bytes;
  }

  /// The ranks that the folder is read as.
  void add_composed() {
    if (!summary_.whole.has_value()) return;
    for (const RankFile& rank : summary_.whole->files()) {
      RankSummary& found = summary_.ranks.emplace_back();
      found.name = rank.folder_name;
      found.tensor_rank = rank.tensor_rank;
      found.pipeline_rank = rank.pipeline_rank;
      found.files.push_back(open_file(rank.file->path()));
    }
  }

  int open_file(const std::string& path) {
    std::shared_ptr<const TorchFile> opened;
    if (summary_.whole.has_value()) {
      for (const RankFile& rank : summary_.whole->files()) {
        // Files composed of several are shown as they are on the disk.
        const bool is_as_stored = !rank.file->is_composed() || is_composed(summary_.folder.format);
        if (rank.file->path() == path && is_as_stored) opened = rank.file;
      }
    }
    summary_.files.push_back(
        summarize_file(path, summary_.folder.folder, std::move(opened), &budget_));
    return static_cast<int>(summary_.files.size()) - 1;
  }

  /// ok too for formats whose files are not opened: they are named.
  Status check_something_is_readable() const {
    for (const FileSummary& file : summary_.files) {
      if (file.file != nullptr || file.status.ok()) return Status();
    }
    return summary_.files.empty() ? Status() : summary_.files[0].status;
  }

  /// Calls visit(file index, file) for the rank's own files that are open.
  template <class Visit>
  void visit_model_files(const Visit& visit) const {
    for (size_t i = 0; i < summary_.files.size(); ++i) {
      const FileSummary& file = summary_.files[i];
      if (file.file != nullptr && !file.path.ends_with("distrib_optim.pt")) {
        visit(static_cast<int>(i), *file.file);
      }
    }
  }

  void read_args() {
    visit_model_files([this](int index, const TorchFile& file) {
      if (summary_.args.has_value()) return;
      const std::optional<PickleId> args = file.graph().find(file.root(), "args");
      if (args.has_value()) summary_.args = {index, *args};
    });
    if (summary_.config.has_value()) return;
    const Result<model::GptConfig> config = model::GptConfig::from_fields(
        [this](std::string_view name) -> std::optional<megatron::FieldValue> { return arg(name); });
    if (config.has_value()) summary_.config = *config;
  }

  std::optional<megatron::FieldValue> arg(std::string_view name) const {
    if (!summary_.args.has_value()) return std::nullopt;
    const auto [index, args] = *summary_.args;
    const PickleGraph& graph = summary_.files[static_cast<size_t>(index)].file->graph();
    const std::optional<PickleId> id = find_arg(graph, args, name);
    return id.has_value() ? config_field(graph, *id, name) : std::nullopt;
  }

  std::optional<int64_t> int_arg_of(std::string_view name) const {
    const std::optional<megatron::FieldValue> value = arg(name);
    if (!value.has_value() || !std::holds_alternative<int64_t>(*value)) return std::nullopt;
    return std::get<int64_t>(*value);
  }

  void read_sizes() {
    if (summary_.whole.has_value() && has_dist_items(summary_.folder.format)) {
      summary_.tensor_model_parallel_size = summary_.whole->tensor_model_parallel_size();
      summary_.pipeline_model_parallel_size = summary_.whole->pipeline_model_parallel_size();
      summary_.sizes_are_from_args = int_arg_of("tensor_model_parallel_size").has_value();
      return;
    }
    int64_t most[3] = {0, 0, 0};
    for (const RankFolder& rank : summary_.folder.ranks) {
      for (size_t i = 0; i < rank.numbers.size(); ++i) {
        most[i] = std::max<int64_t>(most[i], rank.numbers[i]);
      }
    }
    std::optional<int64_t> tensor = int_arg_of("tensor_model_parallel_size");
    if (!tensor.has_value()) tensor = int_arg_of("model_parallel_size");
    const std::optional<int64_t> pipeline = int_arg_of("pipeline_model_parallel_size");
    const int64_t expert = int_arg_of("expert_model_parallel_size").value_or(1);
    summary_.sizes_are_from_args =
        tensor.has_value() && multiply_ranks({*tensor, pipeline.value_or(1), expert}).has_value();
    if (summary_.sizes_are_from_args) {
      summary_.tensor_model_parallel_size = *tensor;
      summary_.pipeline_model_parallel_size = pipeline.value_or(most[1] + 1);
      summary_.expert_model_parallel_size = expert;
    } else {
      summary_.tensor_model_parallel_size = most[0] + 1;
      summary_.pipeline_model_parallel_size = most[1] + 1;
      summary_.expert_model_parallel_size = most[2] + 1;
    }
    const bool has_experts = int_arg_of("num_experts").value_or(0) > 0;
    const std::optional<int64_t> own = int_arg_of("expert_tensor_parallel_size");
    summary_.expert_tensor_parallel_size =
        has_experts && own.has_value() ? *own : summary_.tensor_model_parallel_size;
    // Args determine every rank; folders alone only show gaps between them.
    find_missing_ranks();
  }

  void find_missing_ranks() {
    const int64_t tensor = summary_.tensor_model_parallel_size;
    const int64_t pipeline = summary_.pipeline_model_parallel_size;
    const int64_t expert = summary_.expert_model_parallel_size;
    if (summary_.ranks.empty() || !multiply_ranks({tensor, pipeline, expert})) return;
    const Result<RankGrid> grid =
        RankGrid::create(tensor, expert, summary_.expert_tensor_parallel_size);
    if (!grid.has_value()) return;
    for (int64_t p = 0; p < pipeline; ++p) {
      for (int64_t i = 0; i < grid->size(); ++i) {
        const RankPlace place = grid->place(i);
        std::string name =
            rank_folder_name(place.tensor_rank, p, pipeline, place.expert_rank, expert);
        if (!has_rank(name)) summary_.missing_ranks.push_back(std::move(name));
      }
    }
  }

  bool has_rank(std::string_view name) const {
    return std::any_of(summary_.ranks.begin(), summary_.ranks.end(),
                       [&](const RankSummary& rank) { return rank.name == name; });
  }

  /// The numbers of a folder's name are tensor, pipeline, expert rank; without pipeline stages the
  /// second is the expert rank.
  void number_ranks() {
    for (size_t i = 0; i < summary_.folder.ranks.size(); ++i) {
      RankSummary& rank = summary_.ranks[i];
      const std::vector<int>& numbers = summary_.folder.ranks[i].numbers;
      rank.tensor_rank = numbers[0];
      if (numbers.size() == 3) rank.expert_rank = numbers[2];
      if (numbers.size() < 2) continue;
      const bool is_expert = numbers.size() == 2 && summary_.expert_model_parallel_size > 1 &&
                             summary_.pipeline_model_parallel_size == 1;
      (is_expert ? rank.expert_rank : rank.pipeline_rank) = numbers[1];
    }
  }

  void read_state() {
    summary_.iteration = summary_.folder.iteration;
    visit_model_files([this](int, const TorchFile& file) { read_state_of(file); });
    if (summary_.optimizer == OptimizerForm::kNone) {
      for (const RankFolder& rank : summary_.folder.ranks) {
        if (rank.has_distrib_optim) summary_.optimizer = OptimizerForm::kDistributed;
      }
    }
  }

  void read_state_of(const TorchFile& file) {
    const PickleGraph& graph = file.graph();
    const auto find = [&](std::string_view key) { return graph.find(file.root(), key); };
    if (const auto id = find("iteration"); id.has_value() && graph.as_int(*id).has_value()) {
      summary_.iteration = graph.as_int(*id);
    }
    if (const auto id = find("checkpoint_version"); id.has_value()) {
      summary_.checkpoint_version = graph.as_number(*id);
    }
    for (const char* key : {"opt_param_scheduler", "lr_scheduler"}) {
      summary_.has_scheduler = summary_.has_scheduler || find(key).has_value();
    }
    for (const char* key : {"rng_state", "torch_rng_state"}) {
      summary_.has_rng = summary_.has_rng || find(key).has_value();
    }
    int64_t chunks = 0;
    while (find(fmt::format("model{}", chunks)).has_value()) ++chunks;
    summary_.virtual_pipeline_model_parallel_size =
        std::max(summary_.virtual_pipeline_model_parallel_size, chunks);
    if (const std::optional<PickleId> optimizer = find("optimizer")) {
      read_optimizer(graph, *optimizer);
    }
  }

  void read_optimizer(const PickleGraph& graph, PickleId optimizer) {
    const auto has = [&](PickleId dict, std::string_view key) {
      return graph.find(dict, key).has_value();
    };
    if (has(optimizer, "grad_scaler")) summary_.has_grad_scaler = true;
    // Megatron's key of the masters, and its older one. The part of a distributed optimizer in the
    // model file has groups but no state.
    if (has(optimizer, "fp32_from_fp16_params") || has(optimizer, "fp32_from_fp16")) {
      summary_.optimizer = OptimizerForm::kMixedPrecision;
    } else if (has(optimizer, "state")) {
      summary_.optimizer = OptimizerForm::kFp32;
    } else if (const auto inner = graph.find(optimizer, "optimizer")) {
      if (!has(*inner, "state") && has(*inner, "param_groups")) {
        summary_.optimizer = OptimizerForm::kDistributed;
      }
    }
  }

  const SummaryOptions& options_;
  PickleBudget budget_;
  CheckpointSummary summary_;
};

}  // namespace

Result<CheckpointSummary> summarize_checkpoint(const CheckpointFolder& folder,
                                               const SummaryOptions& options) {
  return Summarizer(folder, options).summarize();
}

}  // namespace meg::checkpoint
