#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/internal/min_hash_kernels.h"
#include "libmeg/io/atomic_file.h"

namespace meg::cleaning {

/// Paths of the files of one share in a folder.
struct ShardFiles {
  ShardFiles(const std::string& folder, const preprocess::Shard& shard);

  std::string documents;   ///< As the file of documents that are held.
  std::string signatures;  ///< SignatureFile.
  std::string removed;     ///< A byte a document: 1 where it goes.
};

/// The number of shares of which a folder has files, which must be all. kNotFound where one is
/// missing, kCorruption where there are those of different numbers.
Result<int64_t> count_shards(const std::string& folder);

/// Of a document that has one.
struct SignatureRecord {
  int64_t document = 0;
  int64_t text_bytes = 0;
  std::array<uint64_t, kHashes> signature{};
};

/// Writes the signatures of a share: a magic number and the number of documents, then records.
class SignatureWriter {
 public:
  static Result<SignatureWriter> create(const std::string& path);

  Status add(int64_t document, int64_t text_bytes, std::span<const uint64_t, kHashes> signature);

  /// Completes the file, which is committed by the caller.
  Result<io::AtomicFile*> finish(int64_t documents);

 private:
  explicit SignatureWriter(io::AtomicFile file) : file_(std::move(file)) {}

  Status flush();

  io::AtomicFile file_;
  int64_t size_ = 0;
  std::vector<SignatureRecord> records_;
};

/// Hands the records of a file to `take`, in order; the number of documents. kCorruption for a file
/// that is none, or that claims more than `most_documents`.
Result<int64_t> read_signatures(const std::string& path, int64_t most_documents,
                                const std::function<Status(const SignatureRecord&)>& take);

}  // namespace meg::cleaning
