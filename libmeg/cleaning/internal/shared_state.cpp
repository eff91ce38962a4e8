#include "libmeg/cleaning/internal/shared_state.h"

namespace meg::cleaning {

Result<ExactDuplicates::Answer> SharedState::add_digest(int64_t number, const TextDigest& digest) {
  MEG_ASSIGN_OR_RETURN(const ExactDuplicates::Answer answer, exact->add(number, digest));
  if (journal && answer != ExactDuplicates::Answer::kRepeated) {
    MEG_RETURN_IF_ERROR(journal->add(DigestRecord{.digest = digest, .number = number}));
  }
  return answer;
}

Result<CleanCheckpoint> SharedState::begin_checkpoint() const {
  MEG_ASSIGN_OR_RETURN(CleanCheckpoint checkpoint, journal->begin_checkpoint());
  checkpoint.summary = summary;
  checkpoint.held = held;
  checkpoint.held_pieces = held_pieces;
  return checkpoint;
}

Status SharedState::write_checkpoint(const preprocess::ReadPosition& end,
                                     CleanCheckpoint& checkpoint) {
  checkpoint.position = end;
  checkpoint.summary.output_bytes = output_bytes;
  checkpoint.held_bytes = held_bytes;
  for (Output& output : outputs) {
    MEG_ASSIGN_OR_RETURN(checkpoint.outputs.emplace_back(), output.mark());
  }
  return {};
}

// The bytes first, then the journal that says they are there: the other way round, a power cut
// could leave a journal that names bytes which never reached the disk.
Status SharedState::save_checkpoint(const CleanCheckpoint& checkpoint) {
  for (Output& output : outputs) MEG_RETURN_IF_ERROR(output.sync());
  io::AtomicFile* const file = &held_file;
  MEG_RETURN_IF_ERROR(io::AtomicFile::flush_all({&file, 1}));
  MEG_RETURN_IF_ERROR(journal->sync());
  return journal->save(checkpoint);
}

}  // namespace meg::cleaning
