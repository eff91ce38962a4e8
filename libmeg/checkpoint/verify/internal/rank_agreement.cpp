#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"
#include "libmeg/checkpoint/verify/internal/rank_checks.h"

// Compares each rank's plain values with the first rank's. Which of two different values is right
// cannot be known: problems state both, and the place of the other one.

namespace meg::checkpoint {
namespace {

/// Fields of args that say which process wrote the file.
constexpr std::array<std::string_view, 4> kOwnFields = {"rank", "local_rank", "node_rank",
                                                        "master_addr"};

/// Values longer than this are compared by their beginnings.
constexpr size_t kLongestValue = size_t{1} << 16;
/// What a problem shows of a value.
constexpr size_t kShownValue = 80;

class AgreementChecker {
 public:
  AgreementChecker(const CheckpointRanks& ranks, const VerifyCheckpointOptions& options,
                   CheckpointReport* report)
      : ranks_(ranks), first_(ranks.ranks.front()), options_(options), report_(*report) {}

  void check_folder_iteration(const CheckpointFolder& folder);
  void check_ranks();
  void check_sizes();

 private:
  void check_facts(const RankContent& rank);
  void check_args(const RankContent& rank);
  void check_world_size();
  void check_vocabulary();

  std::string text(const RankContent& rank, std::optional<PickleId> id, size_t limit) const {
    return id.has_value() ? rank.file->graph().describe(*id, limit) : "nothing";
  }

  std::optional<int64_t> int_of_first(std::string_view name) const {
    if (!first_.args.has_value()) return std::nullopt;
    return int_arg(first_.file->graph(), *first_.args, name);
  }

  void add_size_problem(std::string field, std::string expected, std::string found) {
    report_.problems.push_back({.check = CheckpointCheck::kSizes,
                                .file = first_.file->path(),
                                .subject = std::move(field),
                                .expected = std::move(expected),
                                .found = std::move(found)});
  }

  const CheckpointRanks& ranks_;
  const RankContent& first_;
  const VerifyCheckpointOptions& options_;
  CheckpointReport& report_;
};

void AgreementChecker::check_folder_iteration(const CheckpointFolder& folder) {
  if (folder.is_release || !folder.iteration.has_value()) return;
  const std::optional<int64_t> found = RankFacts::of(*first_.file).iteration;
  if (found == folder.iteration) return;
  report_.problems.push_back(
      {.check = CheckpointCheck::kIteration,
       .file = first_.file->path(),
       .expected = fmt::format("{} as the folder's name says", *folder.iteration),
       .found = number_text(found),
       .likely_cause = "a folder that was renamed, or a file of another one"});
}

void AgreementChecker::check_ranks() {
  for (const RankContent& rank : ranks_.ranks) {
    if (&rank == &first_) continue;
    check_facts(rank);
    check_args(rank);
  }
}

void AgreementChecker::check_facts(const RankContent& rank) {
  const RankFacts expected = RankFacts::of(*first_.file), found = RankFacts::of(*rank.file);
  const auto add_problem = [&](std::string_view check, const std::string& expected_text,
                               std::string found_text, std::string likely_cause) {
    report_.problems.push_back(
        {.check = check,
         .file = rank.file->path(),
         .expected = fmt::format("{} as in {}", expected_text, first_.folder_name),
         .found = std::move(found_text),
         .likely_cause = std::move(likely_cause)});
  };
  if (found.iteration != expected.iteration) {
    add_problem(CheckpointCheck::kIteration, number_text(expected.iteration),
                number_text(found.iteration),
                "a rank's file of another checkpoint, or an interrupted save");
  }
  if (found.version != expected.version) {
    add_problem(CheckpointCheck::kCheckpointVersion, fmt::format("{}", expected.version),
                fmt::format("{}", found.version), "");
  }
}

std::set<std::string> field_names(const RankContent& rank) {
  if (!rank.args.has_value()) return {};
  return arg_names(rank.file->graph(), *rank.args);
}

void AgreementChecker::check_args(const RankContent& rank) {
  std::set<std::string> names = field_names(first_);
  names.merge(field_names(rank));
  const auto value = [&](const RankContent& of, const std::string& name, size_t limit) {
    const std::optional<PickleId> id =
        of.args.has_value() ? find_arg(of.file->graph(), *of.args, name) : std::nullopt;
    return text(of, id, limit);
  };
  // The union of both sides' names: a field that only one rank has differs too.
  for (const std::string& name : names) {
    if (std::find(kOwnFields.begin(), kOwnFields.end(), name) != kOwnFields.end()) continue;
    if (value(first_, name, kLongestValue) == value(rank, name, kLongestValue)) continue;
    report_.problems.push_back(
        {.check = CheckpointCheck::kArgs,
         .file = rank.file->path(),
         .subject = name,
         .expected =
             fmt::format("{} as in {}", value(first_, name, kShownValue), first_.folder_name),
         .found = value(rank, name, kShownValue)});
  }
}

void AgreementChecker::check_sizes() {
  check_world_size();
  check_vocabulary();
}

void AgreementChecker::check_world_size() {
  const std::optional<int64_t> world = int_of_first("world_size");
  const int64_t ranks = ranks_.tensor_size * ranks_.pipeline_size;
  if (!world.has_value() || (*world > 0 && *world % ranks == 0)) return;
  add_size_problem("world_size",
                   fmt::format("a multiple of tensor {} x pipeline {}", ranks_.tensor_size,
                               ranks_.pipeline_size),
                   std::to_string(*world));
}

/// The height of the embedding, all ranks together, against padded_vocab_size and --vocab-size.
void AgreementChecker::check_vocabulary() {
  const RankContent* rank = ranks_.of_stage(0);
  if (rank == nullptr || rank->model->chunks.empty()) return;
  for (const RankEntry& entry : rank->model->chunks.front()) {
    if (entry.match.placement != model::Placement::kEmbedding || entry.tensor == nullptr ||
        entry.match.partition != model::Partition::kVocabulary || entry.tensor->shape.empty()) {
      continue;
    }
    const int64_t rows = entry.tensor->shape[0] * ranks_.tensor_size;
    const std::optional<int64_t> padded = int_of_first("padded_vocab_size");
    if (padded.has_value() && *padded != rows) {
      add_size_problem("padded_vocab_size",
                       fmt::format("{}, the rows of {}", rows, entry.flat_name),
                       std::to_string(*padded));
    }
    if (options_.vocab_size.has_value() && rows < *options_.vocab_size) {
      add_size_problem(entry.flat_name,
                       fmt::format("at least {} rows (`vocab_size`)", *options_.vocab_size),
                       std::to_string(rows));
    }
  }
}

}  // namespace

void check_agreement(const CheckpointRanks& ranks, const CheckpointFolder& folder,
                     const VerifyCheckpointOptions& options, CheckpointReport* report) {
  if (ranks.ranks.empty()) return;
  AgreementChecker checker(ranks, options, report);
  checker.check_folder_iteration(folder);
  checker.check_ranks();
  checker.check_sizes();
}

}  // namespace meg::checkpoint
