#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {

/// Where a document of a dataset was read, as stored in PREFIX.provenance, little endian.
struct DocumentPlace {
  static constexpr uint32_t kNoRow = std::numeric_limits<uint32_t>::max();
  static constexpr uint32_t kUnknownSource = std::numeric_limits<uint32_t>::max();

  uint64_t at = 0;                   ///< byte in the file's decompressed content, or row group
  uint32_t source = kUnknownSource;  ///< index into the sources
  uint32_t row = kNoRow;             ///< in that row group; kNoRow: `at` is a byte
};

/// PREFIX.provenance: the file and place that each document of PREFIX comes from. FORMAT.md has the
/// bytes. The file is untrusted: its numbers are checked before they are used.
class Provenance {
 public:
  static constexpr size_t kHeaderSize = 48;
  static constexpr size_t kPlaceSize = 16;
  static constexpr std::string_view kMagic{"MEGPROV\0", 8};
  static constexpr uint64_t kVersion = 1;

  /// The sidecar of the dataset at `prefix`, which may end in ".bin" or ".idx"; nullopt if there is
  /// none. kCorruption for damage, and if PREFIX.idx is not the one it was written for.
  static Result<std::optional<Provenance>> open_beside(const std::string& prefix);

  int64_t document_count() const { return documents_; }

  int64_t source_count() const { return sources_; }

  /// kOutOfRange unless 0 <= document < document_count(), kCorruption if it names no source.
  Result<DocumentPlace> place(int64_t document) const;

  /// The name that the input was given by. source: in [0, source_count()).
  std::string_view source(int64_t source) const;

 private:
  Status check(const std::string& prefix);

  io::MappedFile file_;
  int64_t documents_ = 0;
  int64_t sources_ = 0;
  size_t ends_ = 0;   // where the ends of the sources' names stand
  size_t names_ = 0;  // where these begin
};

/// PREFIX.provenance.
std::string provenance_path(const std::string& prefix);

}  // namespace meg::dataset
