#include "libmeg/checkpoint/verify/internal/scan_plan.h"

#include <fmt/format.h>

namespace meg::checkpoint {
namespace {

constexpr std::string_view kDriftCause =
    "replicas that drifted apart in training; Megatron's tools take tensor rank 0's";
constexpr std::string_view kExpertRankCause =
    "expert-parallel ranks load a copy each; checkpoint_util takes the first rank's";
constexpr std::string_view kTiedCause =
    "the copies drifted apart in training, or one of them was edited; Megatron's tools take the "
    "first stage's";

constexpr std::string_view kMastersCause =
    "weights or masters were edited, but not both; or megatron-core saved buckets with padding "
    "between them in the form fully_reshardable, which shifts the state after the first";

/// A parameter on one rank.
struct Member {
  const RankContent* rank = nullptr;
  const RankEntry* entry = nullptr;
  size_t chunk = 0;
  std::string_view check =
      CheckpointCheck::kReplicas;  ///< The check that it equals the first member.
};

/// Groups what has to be compared: for each parameter the replicas of all tensor-parallel and
/// expert-parallel ranks, each shard of the embedding with its tied copy on the last stage, and
/// each weight with its fp32 master. Whatever has no relation is a group of its own, so that every
/// tensor is in just one group and read just once.
class ScanPlanner {
 public:
  explicit ScanPlanner(const CheckpointRanks& ranks) : ranks_(ranks) {}

  std::vector<ScanGroup> plan();

 private:
  void add_parameter(const RankContent& first, size_t chunk, const RankEntry& entry);
  void add_copies(const RankContent& rank, size_t chunk, const RankEntry& entry,
                  std::vector<Member>* members) const;
  void add_tied_copies(int64_t tensor_rank, std::vector<Member>* members) const;
  void add_members(const std::vector<Member>& members);
  void add_weights(const std::vector<Member>& members);
  void add_state(const std::vector<Member>& members, const std::string& kind);
  bool embedding_is_readable(int64_t tensor_rank) const;

  const CheckpointRanks& ranks_;
  std::vector<ScanGroup> groups_;
};

ScannedTensor scanned(const Member& member, const TensorView& view, std::string_view kind) {
  ScannedTensor tensor;
  tensor.file = member.rank->file;
  tensor.view = view;
  tensor.name = member.entry->flat_name;
  if (!kind.empty()) tensor.name += fmt::format(" {}", kind);
  tensor.non_negative = kind == "exp_avg_sq";
  return tensor;
}

const TensorView* state_tensor(const Member& member, std::string_view kind) {
  const RankState* state = member.rank->state(member.chunk, *member.entry);
  if (state == nullptr) return nullptr;
  for (const auto& [key, view] : state->tensors) {
    if (key == kind) return &view;
  }
  return nullptr;
}

bool is_tensor(const RankEntry& entry) {
  return !entry.match.is_extra_state && entry.tensor != nullptr;
}

bool is_embedding(const RankEntry& entry) {
  return entry.match.placement == model::Placement::kEmbedding &&
         entry.match.partition == model::Partition::kVocabulary;
}

std::vector<ScanGroup> ScanPlanner::plan() {
  for (int64_t stage = 0; stage < ranks_.pipeline_size; ++stage) {
    const RankContent* first = ranks_.of_stage(stage);
    if (first == nullptr) continue;
    for (size_t c = 0; c < first->model->chunks.size(); ++c) {
      for (const RankEntry& entry : first->model->chunks[c]) {
        if (is_tensor(entry)) add_parameter(*first, c, entry);
      }
    }
  }
  return std::move(groups_);
}

void ScanPlanner::add_parameter(const RankContent& first, size_t chunk, const RankEntry& entry) {
  std::vector<Member> replicas;
  for (const RankContent& rank : ranks_.ranks) {
    if (rank.pipeline_rank != first.pipeline_rank) continue;
    const RankEntry* found = rank.entry(chunk, entry.flat_name);
    if (found == nullptr || !is_tensor(*found)) continue;
    // It is in the embedding's group.
    if (ranks_.is_tied_copy(*found) && embedding_is_readable(rank.tensor_rank)) continue;
    std::vector<Member> members{{.rank = &rank, .entry = found, .chunk = chunk}};
    add_copies(rank, chunk, *found, &members);
    if (entry.match.partition == model::Partition::kReplicated) {
      replicas.insert(replicas.end(), members.begin(), members.end());
      continue;
    }
    if (is_embedding(entry)) add_tied_copies(rank.tensor_rank, &members);
    add_members(members);
  }
  if (!replicas.empty()) add_members(replicas);
}

/// Adds what other expert-parallel ranks have of the last member.
void ScanPlanner::add_copies(const RankContent& rank, size_t chunk, const RankEntry& entry,
                             std::vector<Member>* members) const {
  const std::string_view check = members->back().check;
  for (const RankContent& copy : ranks_.copies) {
    if (copy.tensor_rank != rank.tensor_rank || copy.pipeline_rank != rank.pipeline_rank) continue;
    const RankEntry* found = copy.entry(chunk, entry.flat_name);
    if (found == nullptr || !is_tensor(*found)) continue;
    members->push_back({.rank = &copy, .entry = found, .chunk = chunk, .check = check});
  }
}

/// Whether the embedding's shard of this tensor rank can be compared with the tied copy.
bool ScanPlanner::embedding_is_readable(int64_t tensor_rank) const {
  const RankContent* rank = ranks_.find(tensor_rank, 0);
  if (rank == nullptr || !rank->model.has_value()) return false;
  for (const std::vector<RankEntry>& chunk : rank->model->chunks) {
    for (const RankEntry& entry : chunk) {
      if (is_tensor(entry) && is_embedding(entry)) return true;
    }
  }
  return false;
}

void ScanPlanner::add_tied_copies(int64_t tensor_rank, std::vector<Member>* members) const {
  const RankContent* last = ranks_.find(tensor_rank, ranks_.pipeline_size - 1);
  if (last == nullptr || !last->model.has_value()) return;
  for (size_t c = 0; c < last->model->chunks.size(); ++c) {
    for (const RankEntry& entry : last->model->chunks[c]) {
      if (!is_tensor(entry) || !ranks_.is_tied_copy(entry)) continue;
      members->push_back(
          {.rank = last, .entry = &entry, .chunk = c, .check = CheckpointCheck::kTiedEmbeddings});
      add_copies(*last, c, entry, members);
    }
  }
}

/// Members that fit the first one are compared with it, the others are read separately.
void ScanPlanner::add_members(const std::vector<Member>& members) {
  std::vector<Member> fitting;
  for (const Member& member : members) {
    const TensorView& first = *members.front().entry->tensor;
    const TensorView& view = *member.entry->tensor;
    if (view.shape == first.shape && view.dtype == first.dtype) {
      fitting.push_back(member);
    } else {
      add_members({member});
    }
  }
  add_weights(fitting);
  const RankState* state =
      fitting.front().rank->state(fitting.front().chunk, *fitting.front().entry);
  if (state == nullptr) return;
  for (const auto& [kind, view] : state->tensors) {
    // Masters are already grouped with their weights.
    if (kind != "fp32_param") add_state(fitting, kind);
  }
}

void relate(const Member& member, size_t first, size_t second, ScanGroup* group) {
  const bool is_tied = member.check == CheckpointCheck::kTiedEmbeddings;
  const std::string_view cause = member.rank->is_copy ? kExpertRankCause
                                 : is_tied            ? kTiedCause
                                                      : kDriftCause;
  group->relations.push_back({.kind = TensorRelation::Kind::kEqual,
                              .first = first,
                              .second = second,
                              .check = member.check,
                              .likely_cause = std::string(cause)});
}

void ScanPlanner::add_weights(const std::vector<Member>& members) {
  ScanGroup group;
  std::optional<size_t> first_master;
  for (const Member& member : members) {
    const size_t weight = group.tensors.size();
    group.tensors.push_back(scanned(member, *member.entry->tensor, ""));
    if (weight > 0) relate(member, 0, weight, &group);
    const TensorView* master = state_tensor(member, "fp32_param");
    if (master == nullptr || master->dtype != DType::kFloat32) continue;
    const size_t index = group.tensors.size();
    group.tensors.push_back(scanned(member, *master, "fp32_param"));
    if (first_master.has_value()) {
      relate(member, *first_master, index, &group);
    } else {
      first_master = index;
    }
    group.relations.push_back({.kind = TensorRelation::Kind::kRounded,
                               .first = index,
                               .second = weight,
                               .check = CheckpointCheck::kMasters,
                               .likely_cause = std::string(kMastersCause)});
  }
  groups_.push_back(std::move(group));
}

void ScanPlanner::add_state(const std::vector<Member>& members, const std::string& kind) {
  ScanGroup group;
  for (const Member& member : members) {
    const TensorView* view = state_tensor(member, kind);
    if (view == nullptr) continue;
    const ScannedTensor tensor = scanned(member, *view, kind);
    if (!group.tensors.empty() && group.tensors.front().view.dtype != view->dtype) {
      groups_.push_back({.tensors = {tensor}, .relations = {}});
      continue;
    }
    group.tensors.push_back(tensor);
    if (group.tensors.size() > 1) relate(member, 0, group.tensors.size() - 1, &group);
  }
  if (!group.tensors.empty()) groups_.push_back(std::move(group));
}

}  // namespace

std::vector<ScanGroup> plan_scan(const CheckpointRanks& ranks) { return ScanPlanner(ranks).plan(); }

}  // namespace meg::checkpoint
