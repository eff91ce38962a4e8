#include "libmeg/checkpoint/verify/verify_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"
#include "libmeg/checkpoint/verify/internal/checkpoint_ranks.h"
#include "libmeg/checkpoint/verify/internal/entry_crcs.h"
#include "libmeg/checkpoint/verify/internal/rank_checks.h"
#include "libmeg/checkpoint/verify/internal/scan_plan.h"
#include "libmeg/checkpoint/verify/internal/tensor_scan.h"

// Everything that can be found wrong with a checkpoint, as a list and not as the first error: users
// who repair one want to know all of it. Each check works on what the ranks' files have, so that
// one damaged file does not keep others from being checked.

namespace meg::checkpoint {
namespace {

class CheckpointVerifier {
 public:
  CheckpointVerifier(const std::string& path, const VerifyCheckpointOptions& options)
      : path_(path), options_(options) {
    report_.folder = path;
    // A damaged pickle is one problem among others: read_values() compares the CRCs of all files.
    options_.open.check_crcs = false;
  }

  Result<CheckpointReport> run() &&;

 private:
  Result<bool> find();
  void note_negative_moments(std::vector<Problem>* problems);
  Status read_values(const CheckpointRanks& ranks);

  void drop_what_exchanged_files_explain() {
    constexpr std::array kExplained = {CheckpointCheck::kNames, CheckpointCheck::kShapes,
                                       CheckpointCheck::kReplicas,
                                       CheckpointCheck::kTiedEmbeddings};
    std::erase_if(report_.problems, [&](const Problem& problem) {
      return std::find(kExplained.begin(), kExplained.end(), problem.check) != kExplained.end();
    });
  }

  void add_problems(std::vector<Problem> problems) {
    std::move(problems.begin(), problems.end(), std::back_inserter(report_.problems));
  }

  Status check_whole(const CheckpointRanks& ranks);
  void describe(const CheckpointRanks& ranks);

  const std::string& path_;
  VerifyCheckpointOptions options_;
  CheckpointFolder folder_;
  CheckpointReport report_;
};

Result<CheckpointReport> CheckpointVerifier::run() && {
  MEG_ASSIGN_OR_RETURN(const bool is_found, find());
  if (!is_found) return std::move(report_);
  MEG_ASSIGN_OR_RETURN(const CheckpointRanks ranks,
                       read_checkpoint_ranks(folder_, options_.open, &report_));
  describe(ranks);
  check_agreement(ranks, folder_, options_, &report_);
  check_parameters(ranks, &report_);
  check_optimizers(ranks, &report_);
  check_state(ranks, &report_);
  // Check from the small to the large: agreement of ranks, names and shapes, optimizers, the model
  // as a whole, and only then the values, which are gigabytes. All of these run even where one
  // found something, except the whole model, which then would only repeat it.
  MEG_RETURN_IF_ERROR(check_whole(ranks));
  MEG_RETURN_IF_ERROR(read_values(ranks));
  if (ranks.are_exchanged) drop_what_exchanged_files_explain();
  return std::move(report_);
}

/// Returns false if nothing was found that could be opened; the report says why.
Result<bool> CheckpointVerifier::find() {
  Result<CheckpointFolder> found = find_checkpoint(path_, options_.iteration);
  if (!found.has_value()) {
    std::error_code ignored;
    // A tracker that is wrong is a finding. Without one the path is most likely no checkpoint,
    // which is the caller's mistake.
    const std::string tracker = (std::filesystem::path(path_) / kTrackerName).string();
    const bool has_tracker = std::filesystem::exists(tracker, ignored);
    if (!has_tracker || options_.iteration.has_value()) return found.error();
    report_.problems.push_back(problem_of(CheckpointCheck::kTracker, tracker, found.error()));
    return false;
  }
  folder_ = *std::move(found);
  report_.folder = folder_.folder;
  report_.format = folder_.format;
  report_.iteration = folder_.iteration;
  if (folder_.format == CheckpointFormat::kSingleFile) {
    const std::filesystem::path file = folder_.folder;
    folder_.ranks = {
        {.numbers = {0}, .name = file.parent_path().filename().string(), .file = folder_.folder}};
    report_.notes.emplace_back("a single rank's file: the others were not checked");
  }
  return true;
}

/// The elements that a shard adds to the model: a replica and the tied copy add nothing.
int64_t counted_elements(const CheckpointRanks& ranks, const RankContent& rank,
                         const RankEntry& entry) {
  if (entry.match.is_extra_state || entry.tensor == nullptr || ranks.is_tied_copy(entry)) return 0;
  if (entry.match.partition == model::Partition::kReplicated && rank.tensor_rank > 0) return 0;
  return entry.tensor->numel();
}

void CheckpointVerifier::describe(const CheckpointRanks& ranks) {
  report_.rank_files = std::ssize(ranks.ranks) + std::ssize(ranks.copies);
  report_.checkpoint_version = ranks.version;
  if (ranks.ranks.empty()) return;
  report_.tensor_model_parallel_size = ranks.tensor_size;
  report_.pipeline_model_parallel_size = ranks.pipeline_size;
  report_.virtual_pipeline_model_parallel_size = static_cast<int64_t>(ranks.chunks());
  report_.expert_model_parallel_size = ranks.expert_size;
  // Some ranks alone do not say how many parameters the model has.
  const bool is_whole = std::ssize(ranks.ranks) == ranks.tensor_size * ranks.pipeline_size;
  std::vector<model::NameFamily> families;
  for (const RankContent& rank : ranks.ranks) {
    if (!rank.model.has_value()) continue;
    for (const std::vector<RankEntry>& chunk : rank.model->chunks) {
      for (const RankEntry& entry : chunk) {
        if (is_whole) report_.parameter_count += counted_elements(ranks, rank, entry);
        // The name that fewest families share tells most.
        const std::vector<model::NameFamily>& known = entry.match.families;
        if (!known.empty() && (families.empty() || known.size() < families.size())) {
          families = known;
        }
      }
    }
  }
  if (!families.empty()) report_.names = model::name_family_text(families.front());
}

/// The checks that need the whole model, if nothing else was found wrong.
Status CheckpointVerifier::check_whole(const CheckpointRanks& ranks) {
  const bool is_single = folder_.format == CheckpointFormat::kSingleFile;
  if (is_single || !report_.problems.empty() || !ranks.config.has_value()) return Status();
  // Optimizers were read rank by rank; what is not supported of them is noted there.
  OpenCheckpointOptions options = options_.open;
  options.ignore_optimizer |= !report_.notes.empty();
  const Result<MegatronCheckpoint> whole = MegatronCheckpoint::open(folder_, options);
  if (whole.has_value()) {
    report_.names = model::name_family_text(whole->family());
    return Status();
  }
  // What this version does not read is no fault of the checkpoint.
  if (whole.error().code() == StatusCode::kUnsupported) return whole.error();
  report_.problems.push_back(
      problem_of(CheckpointCheck::kStructure, folder_.folder, whole.error()));
  return Status();
}

/// No optimizer makes a mean of squares negative, but files are whole and can be used with one:
/// made-up checkpoints have them. One note for all.
void CheckpointVerifier::note_negative_moments(std::vector<Problem>* problems) {
  const auto others = std::stable_partition(
      problems->begin(), problems->end(),
      [](const auto& problem) { return problem.check != CheckpointCheck::kNegative; });
  if (others == problems->end()) return;
  report_.notes.push_back(fmt::format("{}; tensors with such elements: {}", others->message(),
                                      problems->end() - others));
  problems->erase(others, problems->end());
}

Status CheckpointVerifier::read_values(const CheckpointRanks& ranks) {
  const std::vector<ScanGroup> groups = plan_scan(ranks);
  for (const ScanGroup& group : groups) {
    report_.tensors += static_cast<int64_t>(group.tensors.size());
  }
  uint64_t bytes = 0;
  for (const ScanGroup& group : groups) {
    for (const ScannedTensor& tensor : group.tensors)
      bytes += static_cast<uint64_t>(tensor.view.bytes());
  }
  // Check before memory is taken for what tensors claim.
  MEG_RETURN_IF_ERROR(
      check_tensor_bytes(folder_.folder, bytes, static_cast<uint64_t>(report_.bytes)));
  std::vector<std::shared_ptr<const TorchFile>> files = ranks.other_files;
  for (const RankContent& rank : ranks.ranks) {
    // A joined rank is a view of two files, both of which are among other_files.
    if (!rank.is_joined) files.push_back(rank.file);
  }
  for (const std::shared_ptr<const TorchFile>& file : files) {
    if (options_.check_crcs) add_problems(check_entry_crcs(*file));
  }
  MEG_ASSIGN_OR_RETURN(std::vector<Problem> problems,
                       scan_tensors(groups, files,
                                    {.check_crcs = options_.check_crcs,
                                     .known_storages = {},
                                     .check_finite = !options_.allow_nan,
                                     .workers = options_.workers,
                                     .progress = options_.progress}));
  note_negative_moments(&problems);
  add_problems(std::move(problems));
  return Status();
}

}  // namespace

Result<CheckpointReport> verify_checkpoint(const std::string& path,
                                           const VerifyCheckpointOptions& options) {
  return CheckpointVerifier(path, options).run();
}

}  // namespace meg::checkpoint
