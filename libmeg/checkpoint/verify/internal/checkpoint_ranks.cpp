#include "libmeg/checkpoint/verify/internal/checkpoint_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_config.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/distributed_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"

namespace meg::checkpoint {
namespace {

/// Missing rank files that are reported one by one; the rest is counted with the last of them.
constexpr int64_t kMaxNamedRanks = 64;

/// Opens what can be opened and continues: unlike a reader of checkpoints, a verifier does not stop
/// at the first fault but reports it and leaves the rank, its model or its optimizer out of later
/// checks. Only what leaves nothing to check at all (a composed dialect that cannot be read, a
/// model whose rows libmeg does not know) is a Status.
class RankReader {
 public:
  RankReader(const CheckpointFolder& folder, const OpenCheckpointOptions& options,
             model::ParameterTable table, CheckpointReport* report)
      : folder_(folder),
        options_(options),
        report_(*report),
        budget_(rank_file_bytes(folder)),
        opening_{.budget = &budget_, .check_metadata_crcs = options.check_crcs},
        found_(std::move(table)) {}

  Result<CheckpointRanks> read() {
    if (has_composed_ranks()) {
      MEG_RETURN_IF_ERROR(open_composed());
      MEG_RETURN_IF_ERROR(read_config());
    } else {
      for (const RankFolder& rank : folder_.ranks) open(rank);
      if (!found_.ranks.empty()) {
        read_sizes();
        MEG_RETURN_IF_ERROR(read_config());
      }
      place_ranks();
      MEG_RETURN_IF_ERROR(check_order());
    }
    for (RankContent& copy : found_.copies) {
      if (read_model(&copy) && !options_.ignore_optimizer) read_optimizer(&copy);
    }
    for (RankContent& rank : found_.ranks) {
      const bool is_known = read_model(&rank);
      if (!is_known || options_.ignore_optimizer) continue;
      if (rank.state_file != nullptr) join_distributed(&rank);
      read_optimizer(&rank);
    }
    // This has to wait until the sizes and the model of the first stage are known.
    const RankContent* first = found_.of_stage(0);
    if (first != nullptr && found_.config.has_value()) {
      infer_gated_linear_unit(first->model->chunks.front(), found_.tensor_size, &*found_.config);
    }
    return std::move(found_);
  }

 private:
  void add_problem(Problem problem) { report_.problems.push_back(std::move(problem)); }

  void open(const RankFolder& folder);
  bool has_composed_ranks() const;
  static RankContent content_of(const RankFile& file);
  Status open_composed();
  void read_sizes();
  Status read_config();
  void place_ranks();
  Status check_order();
  void check_missing();
  /// Returns whether every parameter is known, which identifying the optimizer's state requires.
  bool read_model(RankContent* rank);
  void add_optimizer_problem(const std::string& file, const Status& status);
  void join_distributed(RankContent* rank);
  void read_optimizer(RankContent* rank);

  const CheckpointFolder& folder_;
  const OpenCheckpointOptions& options_;
  CheckpointReport& report_;
  PickleBudget budget_;
  TorchFileOptions opening_;
  CheckpointRanks found_;
};

void RankReader::open(const RankFolder& folder) {
  Result<TorchFile> file = TorchFile::open(folder.file, opening_);
  if (!file.has_value()) {
    return add_problem(problem_of(CheckpointCheck::kFile, folder.file, file.error()));
  }
  RankContent rank;
  rank.folder_name = folder.name;
  rank.has_distrib_optim = folder.has_distrib_optim;
  rank.file = std::make_shared<const TorchFile>(std::move(*file));
  rank.args = rank.top("args");
  report_.bytes += static_cast<int64_t>(rank.file->size());
  found_.ranks.push_back(std::move(rank));
  if (!folder.has_distrib_optim) return;
  const std::string path = distrib_optim_path(folder.file);
  Result<TorchFile> distributed = TorchFile::open(path, opening_);
  if (!distributed.has_value()) {
    return add_problem(problem_of(CheckpointCheck::kFile, path, distributed.error()));
  }
  report_.bytes += static_cast<int64_t>(distributed->size());
  found_.ranks.back().state_file = std::make_shared<const TorchFile>(std::move(*distributed));
  found_.other_files.push_back(found_.ranks.back().state_file);
}

/// Whether ranks are composed of what is in the folder: another dialect, or the files of several
/// expert-parallel ranks.
bool RankReader::has_composed_ranks() const {
  if (is_composed(folder_.format)) return true;
  if (folder_.format != CheckpointFormat::kMpRank || folder_.ranks.empty()) return false;
  // If the first file cannot be opened, open() reports it in the other branch.
  const Result<TorchFile> first = TorchFile::open(folder_.ranks[0].file, opening_);
  if (!first.has_value()) return false;
  return RankFacts::of(*first).expert_size > 1;
}

RankContent RankReader::content_of(const RankFile& file) {
  RankContent rank;
  rank.folder_name = file.folder_name;
  rank.tensor_rank = file.tensor_rank;
  rank.pipeline_rank = file.pipeline_rank;
  rank.file = file.file;
  rank.args = rank.top("args");
  return rank;
}

/// The ranks that such a folder is read as: all or none of them.
Status RankReader::open_composed() {
  MEG_ASSIGN_OR_RETURN(
      const RankFiles files,
      open_rank_files(folder_, options_, options_.ignore_optimizer ? nullptr : &found_.table,
                      /*with_copies=*/true));
  found_.tensor_size = files.tensor_size;
  found_.pipeline_size = files.pipeline_size;
  found_.expert_size = files.expert_size;
  report_.notes.insert(report_.notes.end(), files.notes.begin(), files.notes.end());
  found_.other_files = files.sources;
  for (const RankFile& file : files.files) {
    RankContent rank = content_of(file);
    rank.is_joined = !files.sources.empty();
    rank.is_distributed = rank.is_joined && files.has_distributed_optimizer;
    report_.bytes += static_cast<int64_t>(rank.file->size());
    found_.ranks.push_back(std::move(rank));
  }
  for (const RankFile& file : files.copies) {
    found_.copies.push_back(content_of(file));
    found_.copies.back().is_copy = true;
  }
  return Status();
}

/// The parallel sizes: those of the first readable rank, otherwise those of the folders' names.
void RankReader::read_sizes() {
  const TorchFile& first = *found_.ranks.front().file;
  const Result<RankSizes> stated = rank_sizes(folder_, first);
  if (!stated.has_value()) {
    add_problem(problem_of(CheckpointCheck::kSizes, first.path(), stated.error()));
  }
  const RankSizes sizes = stated.has_value() ? *stated : sizes_by_names(folder_, 1);
  found_.tensor_size = sizes.tensor;
  found_.pipeline_size = sizes.pipeline;
}

Status RankReader::read_config() {
  const RankContent& first = found_.ranks.front();
  MEG_RETURN_IF_ERROR(check_rows_of_args(*first.file));
  Result<model::GptConfig> config = read_checkpoint_config(*first.file, options_.fallback);
  if (config.has_value()) {
    found_.config = *std::move(config);
  } else if (first.args.has_value()) {
    add_problem({.check = CheckpointCheck::kSizes,
                 .file = first.file->path(),
                 .subject = "args",
                 .found = config.error().message()});
  } else {
    report_.notes.push_back(fmt::format("{}: no args: shapes were not checked ({})",
                                        first.file->path(), config.error().message()));
  }
  found_.version = RankFacts::of(*first.file).version;
  return Status();
}

/// Gives every rank its numbers, reports folders that are missing and those that do not belong.
void RankReader::place_ranks() {
  if (found_.ranks.empty()) return;
  std::unordered_map<std::string, std::pair<int64_t, int64_t>> places;
  for (int64_t p = 0; p < found_.pipeline_size; ++p) {
    for (int64_t t = 0; t < found_.tensor_size; ++t) {
      places[rank_folder_name(t, p, found_.pipeline_size)] = {p, t};
    }
  }
  if (folder_.format == CheckpointFormat::kSingleFile) {
    // One rank for itself; its folder's name says which, where it has one.
    places.emplace(folder_.ranks.front().name, std::pair(0, 0));
  } else {
    check_missing();
  }
  for (const RankFolder& rank : folder_.ranks) {
    if (places.count(rank.name) > 0) continue;
    add_problem({.check = CheckpointCheck::kRankFiles,
                 .file = rank.file,
                 .expected = fmt::format("{} rank files (tensor {} x pipeline {} in args)",
                                         places.size(), found_.tensor_size, found_.pipeline_size),
                 .found = "one more",
                 .likely_cause = "it belongs to another checkpoint"});
  }
  // Ranks that belong to no place were reported above; comparing them with the others would report
  // every one of their tensors as well.
  std::erase_if(found_.ranks, [&](RankContent& rank) {
    const auto place = places.find(rank.folder_name);
    if (place == places.end()) return true;
    rank.pipeline_rank = place->second.first;
    rank.tensor_rank = place->second.second;
    return false;
  });
  std::sort(found_.ranks.begin(), found_.ranks.end(),
            [](const RankContent& a, const RankContent& b) {
              return std::pair(a.pipeline_rank, a.tensor_rank) <
                     std::pair(b.pipeline_rank, b.tensor_rank);
            });
}

/// Whether the files of all ranks are where they were saved.
Status RankReader::check_order() {
  const auto all = static_cast<size_t>(found_.tensor_size * found_.pipeline_size);
  if (found_.ranks.size() != all) return Status();
  MEG_ASSIGN_OR_RETURN(const RankGrid grid,
                       RankGrid::create(found_.tensor_size, 1, found_.tensor_size));
  std::vector<std::shared_ptr<const TorchFile>> files;
  for (const RankContent& rank : found_.ranks) files.push_back(rank.file);
  const Status status = check_process_ranks(files, grid);
  if (status.ok()) return status;
  const auto named = std::find_if(files.begin(), files.end(), [&](const auto& file) {
    return status.message().starts_with(file->path() + ": ");
  });
  add_problem(problem_of(CheckpointCheck::kRankFiles, (*named)->path(), status));
  found_.are_exchanged = true;
  return Status();
}

void RankReader::check_missing() {
  std::set<std::string_view> present;
  for (const RankFolder& rank : folder_.ranks) present.insert(rank.name);
  int64_t missing = 0;
  for (int64_t p = 0; p < found_.pipeline_size; ++p) {
    for (int64_t t = 0; t < found_.tensor_size; ++t) {
      const std::string name = rank_folder_name(t, p, found_.pipeline_size);
      if (present.count(name) > 0) continue;
      if (++missing > kMaxNamedRanks) {
        ++report_.problems.back().count;
        continue;
      }
      // Named as those that are there: every format names its files after the rank.
      const RankFolder& known = folder_.ranks.front();
      std::string file = known.file;
      file.replace(file.rfind(known.name), known.name.size(), name);
      add_problem(
          {.check = CheckpointCheck::kRankFiles,
           .file = std::move(file),
           .expected = fmt::format("{} rank files (tensor {} x pipeline {} in args)",
                                   found_.tensor_size * found_.pipeline_size, found_.tensor_size,
                                   found_.pipeline_size),
           .found = "no such file",
           .likely_cause = "saving or converting was interrupted before this rank was written"});
    }
  }
}

bool RankReader::read_model(RankContent* rank) {
  std::vector<std::string> unknown;
  Result<RankModel> model = read_rank_model(*rank->file, found_.table, &unknown);
  if (!model.has_value()) {
    add_problem(problem_of(CheckpointCheck::kNames, rank->file->path(), model.error()));
    return false;
  }
  for (const std::string& name : unknown) {
    add_problem({.check = CheckpointCheck::kNames,
                 .file = rank->file->path(),
                 .subject = name,
                 .expected = "a parameter of GPT",
                 .found = "a name that no rule knows",
                 .likely_cause = "a custom layer: describe it in a file for `param_rules`"});
  }
  rank->model = std::move(*model);
  rank->places.clear();
  rank->parameters.clear();
  for (const std::vector<RankEntry>& chunk : rank->model->chunks) {
    auto& places = rank->places.emplace_back();
    for (size_t e = 0; e < chunk.size(); ++e) {
      const RankEntry& entry = chunk[e];
      const bool is_parameter = entry.match.has_optimizer_state() && entry.tensor != nullptr;
      places[entry.flat_name] = {e, is_parameter ? rank->parameters.size() : SIZE_MAX};
      if (!is_parameter) continue;
      rank->parameters.push_back(optimized_parameter(entry));
    }
  }
  return unknown.empty();
}

void RankReader::add_optimizer_problem(const std::string& file, const Status& status) {
  // What is not supported says nothing of the checkpoint: a note, not a problem.
  if (status.code() == StatusCode::kUnsupported) {
    report_.notes.push_back(status.message() + "; not checked");
  } else {
    add_problem(problem_of(CheckpointCheck::kOptimizer, file, status));
  }
}

/// Joins the file and distrib_optim.pt, if possible, and reads the model from the result.
void RankReader::join_distributed(RankContent* rank) {
  Result<PlainRank> joined = with_plain_optimizer(rank->file, rank->state_file, rank->state_file,
                                                  found_.table, found_.pipeline_size);
  if (!joined.has_value()) {
    return add_optimizer_problem(rank->state_file->path(), joined.error());
  }
  found_.other_files.push_back(rank->file);
  rank->file = std::make_shared<const TorchFile>(std::move(joined->file));
  rank->is_joined = true;
  rank->is_distributed = true;
  rank->args = rank->top("args");
  read_model(rank);
}

void RankReader::read_optimizer(RankContent* rank) {
  Result<RankOptimizer> optimizer = read_rank_optimizer(*rank->file, rank->parameters);
  if (!optimizer.has_value()) {
    return add_optimizer_problem(rank->file->path(), optimizer.error());
  }
  rank->optimizer = std::move(*optimizer);
}

}  // namespace

std::optional<PickleId> RankContent::top(std::string_view key) const {
  return file->graph().find(file->root(), key);
}

const RankEntry* RankContent::entry(size_t chunk, std::string_view flat_name) const {
  if (chunk >= places.size()) return nullptr;
  const auto place = places[chunk].find(flat_name);
  return place == places[chunk].end() ? nullptr : &model->chunks[chunk][place->second.first];
}

const RankState* RankContent::state(size_t chunk, const RankEntry& entry) const {
  if (!optimizer.has_value() || chunk >= places.size()) return nullptr;
  const auto place = places[chunk].find(entry.flat_name);
  if (place == places[chunk].end()) return nullptr;
  const size_t index = place->second.second;
  return index < optimizer->states.size() ? &optimizer->states[index] : nullptr;
}

const RankContent* CheckpointRanks::of_stage(int64_t stage) const {
  for (const RankContent& rank : ranks) {
    if (rank.pipeline_rank == stage && rank.model.has_value()) return &rank;
  }
  return nullptr;
}

const RankContent* CheckpointRanks::find(int64_t tensor_rank, int64_t stage) const {
  for (const RankContent& rank : ranks) {
    if (rank.tensor_rank == tensor_rank && rank.pipeline_rank == stage) return &rank;
  }
  return nullptr;
}

size_t CheckpointRanks::chunks() const {
  for (const RankContent& rank : ranks) {
    if (rank.model.has_value()) return rank.model->chunks.size();
  }
  return 0;
}

bool CheckpointRanks::is_tied_copy(const RankEntry& entry) const {
  return entry.match.placement == model::Placement::kOutput && entry.tensor != nullptr &&
         entry.match.partition == model::Partition::kVocabulary && config.has_value() &&
         !config->untie_embeddings_and_output_weights;
}

Result<CheckpointRanks> read_checkpoint_ranks(const CheckpointFolder& folder,
                                              const OpenCheckpointOptions& options,
                                              CheckpointReport* report) {
  MEG_ASSIGN_OR_RETURN(model::ParameterTable table, model::ParameterTable::gpt());
  if (!options.param_rules.empty()) {
    MEG_RETURN_IF_ERROR(table.add_rules(options.param_rules, options.param_rules_name));
  }
  return RankReader(folder, options, std::move(table), report).read();
}

}  // namespace meg::checkpoint
