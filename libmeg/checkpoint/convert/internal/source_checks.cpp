#include "libmeg/checkpoint/convert/internal/source_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace meg::checkpoint {
namespace {

constexpr int64_t kCompareBytes = int64_t{1} << 20;

/// The CRC-32 of a source's bytes, where its container recorded that of just them.
std::optional<uint32_t> known_crc(const TensorSource& source) {
  const std::optional<FileExtent> extent = source.file_extent();
  const std::optional<RecordedCrc> recorded = source.recorded_crc();
  if (!extent.has_value() || !recorded.has_value() || recorded->extent != *extent) {
    return std::nullopt;
  }
  return recorded->crc;
}

/// Whether the CRC-32s say that copies of one tensor differ.
bool known_to_differ(const LogicalTensor& tensor) {
  const std::optional<uint32_t> first = known_crc(*tensor.pieces[0].source);
  return std::any_of(tensor.replicas.begin(), tensor.replicas.end(), [&](const Piece& copy) {
    const std::optional<uint32_t> crc = known_crc(*copy.source);
    return first.has_value() && crc.has_value() && *crc != *first;
  });
}

}  // namespace

Result<bool> same_bytes(const TensorSource& a, const TensorSource& b) {
  if (a.elements() != b.elements() || a.dtype() != b.dtype()) return false;
  const std::optional<uint32_t> crc_of_a = known_crc(a);
  const std::optional<uint32_t> crc_of_b = known_crc(b);
  if (crc_of_a.has_value() && crc_of_b.has_value()) return *crc_of_a == *crc_of_b;
  const int64_t element = dtype_size(a.dtype());
  const int64_t step = kCompareBytes / element;
  std::vector<std::byte> bytes_of_a, bytes_of_b;
  for (int64_t first = 0; first < a.elements(); first += step) {
    const auto size = static_cast<size_t>(std::min(step, a.elements() - first) * element);
    bytes_of_a.resize(size);
    bytes_of_b.resize(size);
    MEG_RETURN_IF_ERROR(a.read(first, bytes_of_a));
    MEG_RETURN_IF_ERROR(b.read(first, bytes_of_b));
    if (std::memcmp(bytes_of_a.data(), bytes_of_b.data(), size) != 0) return false;
  }
  return true;
}

Status check_tied_copy(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                       std::vector<std::string>* notes) {
  const LogicalParameter* copy = checkpoint.tied_copy();
  if (copy == nullptr) return Status();
  const auto parameters = checkpoint.parameters();
  const auto embedding = std::find_if(
      parameters.begin(), parameters.end(),
      [](const LogicalParameter& p) { return p.canonical == "embedding.word_embeddings.weight"; });
  if (embedding == parameters.end()) return Status();
  for (const LogicalTensor& tensor : copy->tensors) {
    const LogicalTensor* original = embedding->tensor(tensor.kind);
    const bool is_weight = tensor.kind == "weight";
    if (original == nullptr || (!is_weight && !with_optimizer)) continue;
    for (size_t t = 0; t < std::min(tensor.pieces.size(), original->pieces.size()); ++t) {
      const TensorSource& first = *original->pieces[t].source;
      const TensorSource& last = *tensor.pieces[t].source;
      MEG_ASSIGN_OR_RETURN(const bool same, same_bytes(first, last));
      if (same) continue;
      if (is_weight) {
        return make_error(
            StatusCode::kCorruption,
            "{}: {}: expected the embedding's weights of {}, found others; `verify checkpoint` "
            "says more",
            last.file()->path(), copy->spelling, first.file()->path());
      }
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
