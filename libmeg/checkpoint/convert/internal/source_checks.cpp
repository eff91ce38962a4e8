#include "libmeg/checkpoint/convert/internal/source_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "libmeg/checkpoint/dialects/mp_rank/check_tied_copy.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"
#include "libmeg/checkpoint/state/same_bytes.h"

namespace meg::checkpoint {
namespace {

/// Whether the CRC-32s say that copies of one tensor differ.
///
/// Compares the records alone: reading every replica would read the checkpoint as many times as it
/// has tensor-parallel ranks. `verify checkpoint` does.
bool known_to_differ(const LogicalTensor& tensor) {
  const std::optional<uint32_t> first = recorded_crc_of_all(*tensor.pieces[0].source);
  return std::any_of(tensor.replicas.begin(), tensor.replicas.end(), [&](const Piece& copy) {
    const std::optional<uint32_t> crc = recorded_crc_of_all(*copy.source);
    return first.has_value() && crc.has_value() && *crc != *first;
  });
}

}  // namespace

Status missing_distrib_optim(const MegatronCheckpoint& checkpoint) {
  return make_error(StatusCode::kNotFound,
                    "{}: optimizer: expected the distributed optimizer's state in distrib_optim.pt "
                    "beside it, found no such file; `keep_optimizer = false` skips it",
                    checkpoint.files()[0].file->path());
}

Status check_masters(const MegatronCheckpoint& checkpoint) {
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    MEG_ASSIGN_OR_RETURN(const bool fits, has_own_masters(parameter));
    if (fits) continue;
    return make_error(
        StatusCode::kCorruption,
        "{}: {}: expected the optimizer's fp32 weights to round to the model's, found different "
        "values; `keep_optimizer = false` omits the optimizer, `check_masters = false` keeps both "
        "as they are",
        checkpoint.folder().folder, parameter.name);
  }
  return Status();
}

Status check_tied_copy(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                       std::vector<std::string>* notes) {
  MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint));
  const LogicalParameter* copy = checkpoint.tied_copy();
  const LogicalParameter* embedding = word_embeddings(checkpoint);
  if (copy == nullptr || embedding == nullptr || !with_optimizer) return Status();
  for (const LogicalTensor& tensor : copy->tensors) {
    const LogicalTensor* original = embedding->tensor(tensor.kind);
    if (original == nullptr || tensor.kind == "weight") continue;
    for (size_t t = 0; t < std::min(tensor.pieces.size(), original->pieces.size()); ++t) {
      MEG_ASSIGN_OR_RETURN(const bool same,
                           same_bytes(*original->pieces[t].source, *tensor.pieces[t].source));
      if (same) continue;
      notes->push_back(
          fmt::format("{} of the tied copy of the embedding differs on tensor rank {}; "
                      "the first stage's is taken",
                      tensor.kind, t));
      break;
    }
  }
  return Status();
}

void note_drifted_replicas(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                           std::vector<std::string>* notes) {
  int64_t count = 0;
  std::string example;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    if (parameter.axes.partition_axis >= 0) continue;
    for (const LogicalTensor& tensor : parameter.tensors) {
      if (tensor.kind != "weight" && !with_optimizer) continue;
      if (!known_to_differ(tensor)) continue;
      if (count++ == 0) example = fmt::format("{} {}", parameter.name, tensor.kind);
    }
  }
  if (count > 0) {
    notes->push_back(
        fmt::format("{} replicated tensors differ between tensor ranks ({} first); "
                    "rank 0's are taken",
                    count, example));
  }
}

}  // namespace meg::checkpoint
