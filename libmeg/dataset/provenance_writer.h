#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/provenance.h"

namespace meg::dataset {

/// Writes PREFIX.provenance beside a dataset that is being written, for the holder of the dataset's
/// lock. One thread at a time, except for sync().
class ProvenanceWriter {
 public:
  /// resume_at: if set, continues PREFIX.provenance.resume, of which only this many documents
  /// count; kCorruption if it has fewer.
  static Result<ProvenanceWriter> create(const std::string& prefix,
                                         std::optional<int64_t> resume_at = {});
  ProvenanceWriter(ProvenanceWriter&&) noexcept;
  ProvenanceWriter& operator=(ProvenanceWriter&&) noexcept;
  ~ProvenanceWriter();

  Status append(std::span<const DocumentPlace> places);

  /// Writes everything to the system.
  Status flush();

  /// Flushes to the device; may be called from any thread.
  Status sync() const;

  /// Ends the places. sources: the names that their numbers mean.
  Status complete(const std::vector<std::string>& sources);

  /// Makes the file appear; called after complete(), and once PREFIX.idx is there.
  Status publish();

  /// The publish() of a resumed writer whose process was killed after complete(); does nothing if
  /// that was done.
  static Status publish_kept(const std::string& prefix);

 private:
  struct State;
  explicit ProvenanceWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Writes PREFIX.provenance beside a dataset that is there, and that keeps its lock meanwhile.
/// places: one a document. sources: the names that their numbers mean. kInvalidArgument where the
/// file is there: it may know more.
Status write_provenance(const std::string& prefix, std::span<const DocumentPlace> places,
                        const std::vector<std::string>& sources);

}  // namespace meg::dataset
