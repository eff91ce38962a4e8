#include "libmeg/checkpoint/dialects/mp_rank/check_tied_copy.h"

#include <algorithm>

#include "libmeg/checkpoint/state/same_bytes.h"

namespace meg::checkpoint {

const LogicalParameter* word_embeddings(const MegatronCheckpoint& checkpoint) {
  const auto parameters = checkpoint.parameters();
  const auto found = std::find_if(
      parameters.begin(), parameters.end(),
      [](const LogicalParameter& p) { return p.canonical == "embedding.word_embeddings.weight"; });
  return found == parameters.end() ? nullptr : &*found;
}

Status check_tied_copy(const MegatronCheckpoint& checkpoint) {
  const LogicalParameter* copy = checkpoint.tied_copy();
  const LogicalParameter* embedding = word_embeddings(checkpoint);
  if (copy == nullptr || embedding == nullptr) return Status();
  const LogicalTensor& original = embedding->tensors.at(0);
  const LogicalTensor& copied = copy->tensors.at(0);
  bool same = copied.pieces.size() == original.pieces.size();
  size_t piece = 0;
  for (; same && piece < copied.pieces.size(); ++piece) {
    MEG_ASSIGN_OR_RETURN(same,
                         same_bytes(*original.pieces[piece].source, *copied.pieces[piece].source));
    if (!same) break;
  }
  if (same) return Status();
  const auto path = [&](const LogicalTensor& tensor) {
    const size_t last = tensor.pieces.size() - 1;
    const io::PooledFile* file = tensor.pieces[std::min(piece, last)].source->file();
    return file == nullptr ? checkpoint.folder().folder : file->path();
  };
  return make_error(StatusCode::kCorruption,
                    "{}: {}: expected the embedding's weights of {}, found others; `verify "
                    "checkpoint` says more",
                    path(copied), copy->spelling, path(original));
}

}  // namespace meg::checkpoint
