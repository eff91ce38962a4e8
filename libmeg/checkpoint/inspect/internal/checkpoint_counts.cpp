#include "libmeg/checkpoint/inspect/internal/checkpoint_counts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::checkpoint {
namespace {

/// Capped and not refused: sums are shown to people, and one hostile shape must not hide the rest.
int64_t add_capped(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

/// A parameter's flat name, from a name below a model key.
std::string flat_name(std::string_view name) {
  const size_t slash = name.find('/');
  std::string flat(slash == std::string_view::npos ? "" : name.substr(slash + 1));
  std::replace(flat.begin(), flat.end(), '/', '.');
  return flat;
}

/// The shares of all files, by group, then in the order found.
std::vector<TensorShare> shares_of(const std::vector<FileSummary>& files) {
  std::vector<TensorShare> shares;
  std::map<std::pair<TensorGroup, std::string_view>, size_t> share_of;
  for (const FileSummary& file : files) {
    for (size_t i = 0; i < file.groups.size(); ++i) {
      const NamedTensor& tensor = file.contents.tensors[i];
      const auto [place, is_new] = share_of.emplace(
          std::pair(file.groups[i], std::string_view(tensor.dtype)), shares.size());
      if (is_new) shares.push_back({file.groups[i], tensor.dtype, 0, 0, 0});
      TensorShare& share = shares[place->second];
      ++share.tensors;
      share.elements = add_capped(share.elements, tensor.elements);
      share.bytes = add_capped(share.bytes, tensor.bytes);
    }
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TensorShare& a, const TensorShare& b) { return a.group < b.group; });
  return shares;
}

void keep_common(const std::vector<model::NameFamily>& found,
                 std::optional<std::vector<model::NameFamily>>& common) {
  if (!common.has_value()) common = found;
  std::erase_if(*common, [&](model::NameFamily family) {
    return std::find(found.begin(), found.end(), family) == found.end();
  });
}

void count_shard(int64_t tensor_rank, int64_t stage, int64_t elements, CheckpointSummary& summary) {
  const MegatronCheckpoint& whole = *summary.whole;
  const auto holder = static_cast<size_t>(whole.file_index(tensor_rank, stage));
  for (RankSummary& rank : summary.ranks) {
    if (rank.name != whole.files()[holder].folder_name) continue;
    int64_t& file = summary.files[static_cast<size_t>(rank.files[0])].parameters;
    file = add_capped(file, elements);
    rank.parameters = file;
  }
}

/// Adds the weight's shards to the ranks and files that hold them.
void count_shards(const LogicalParameter& parameter, CheckpointSummary& summary) {
  const LogicalTensor& weight = parameter.tensors[0];
  // Pieces of a cut parameter and replicas of one that is not are both in the order of the ranks.
  int64_t tensor_rank = 0;
  for (const auto* shards : {&weight.pieces, &weight.replicas}) {
    for (const Piece& shard : *shards) {
      count_shard(tensor_rank++, parameter.stage, shard.source->elements(), summary);
    }
  }
}

}  // namespace

void count_tensors(CheckpointSummary& summary) {
  summary.shares = shares_of(summary.files);
  for (const TensorShare& share : summary.shares) {
    if (share.group == TensorGroup::kOptimizer) {
      summary.optimizer_bytes = add_capped(summary.optimizer_bytes, share.bytes);
    }
  }
  for (RankSummary& rank : summary.ranks) {
    for (const int index : rank.files) {
      const FileSummary& file = summary.files[static_cast<size_t>(index)];
      for (size_t i = 0; i < file.groups.size(); ++i) {
        int64_t& bytes = rank.tensor_bytes[static_cast<size_t>(file.groups[i])];
        bytes = add_capped(bytes, file.contents.tensors[i].bytes);
      }
    }
  }
}

void count_parameters(CheckpointSummary& summary) {
  const MegatronCheckpoint& whole = *summary.whole;
  summary.family = whole.family();
  int64_t all = 0, vocabulary = 0;  // vocabulary: elements of one token in all tables
  for (const LogicalParameter& parameter : whole.parameters()) {
    count_shards(parameter, summary);
    int64_t elements = 1;
    for (const int64_t size : parameter.shape) elements *= size;
    all = add_capped(all, elements);
    if (parameter.partition != model::Partition::kVocabulary || parameter.shape.empty()) continue;
    summary.padded_vocab_size = parameter.shape[0];
    if (parameter.shape[0] > 0) vocabulary += elements / parameter.shape[0];
  }
  if (whole.tied_copy() != nullptr) count_shards(*whole.tied_copy(), summary);
  summary.parameters = all;
  if (!summary.true_vocab_size.has_value() || !summary.padded_vocab_size.has_value()) return;
  const int64_t padding = *summary.padded_vocab_size - *summary.true_vocab_size;
  if (padding >= 0 && *summary.true_vocab_size > 0) {
    summary.unpadded_parameters = all - padding * vocabulary;
  }
}

Status count_parameters_of_files(const OpenCheckpointOptions& options, CheckpointSummary& summary) {
  MEG_ASSIGN_OR_RETURN(model::ParameterTable table, model::ParameterTable::gpt());
  MEG_RETURN_IF_ERROR(table.add_rules(options.param_rules, options.param_rules_name));
  std::optional<std::vector<model::NameFamily>> families;
  for (FileSummary& file : summary.files) {
    for (size_t i = 0; i < file.groups.size(); ++i) {
      const NamedTensor& tensor = file.contents.tensors[i];
      if (file.groups[i] != TensorGroup::kModel || tensor.view == nullptr) continue;
      const std::optional<model::ParameterMatch> match = table.match(flat_name(tensor.name));
      if (match.has_value()) keep_common(match->families, families);
      // What no rule knows counts as a parameter: it is a tensor of the model.
      if (match.has_value() && match->is_extra_state) continue;
      file.parameters = add_capped(file.parameters, tensor.elements);
    }
  }
  if (families.has_value() && !families->empty()) summary.family = families->front();
  for (RankSummary& rank : summary.ranks) {
    for (const int index : rank.files) {
      const FileSummary& file = summary.files[static_cast<size_t>(index)];
      if (file.file == nullptr) continue;
      rank.parameters = add_capped(rank.parameters.value_or(0), file.parameters);
    }
  }
  return Status();
}

}  // namespace meg::checkpoint
