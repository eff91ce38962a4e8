#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/near_duplicates.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::cleaning {

/// Paths of the files of one share in a folder.
struct ShardFiles {
  ShardFiles(const std::string& folder, const preprocess::Shard& shard);

  std::string documents;   ///< As the file of documents that are held.
  std::string signatures;  ///< SignatureFile.
  std::string shingles;    ///< ShingleWriter's, where pairs will be verified.
  std::string removed;     ///< A byte a document: 1 where it goes.
};

/// The number of shares of which a folder has files, which must be all. kNotFound where one is
/// missing, kCorruption where there are those of different numbers.
Result<int64_t> count_shards(const std::string& folder);

/// What stands first in a file of signatures.
struct SignatureHead {
  uint64_t magic = 0;
  int64_t documents = 0;      ///< Of the share, those without a signature included.
  uint64_t digest = 0;        ///< Of all that follows.
  uint64_t key = 0;           ///< The XXH3-64 of the key whose values are kept; 0: none.
  uint64_t has_shingles = 0;  ///< 1 where shingles are kept.
};

/// The XXH3-64 of a key, for SignatureHead; 0 for none.
uint64_t key_digest(std::string_view key);

/// Writes the signatures of a share: a head, then blocks of 1,024 documents, the last of fewer. A
/// block has its documents' numbers, their bytes of text, values and numbers of shingles, and then
/// their hashes of bucket 0, of bucket 1 and so on, so that a bucket can be read alone.
class SignatureWriter {
 public:
  /// key: whose values are kept; may be empty.
  static Result<SignatureWriter> create(const std::string& path, std::string_view key,
                                        bool has_shingles);

  Status add(const SignedDocument& document, std::span<const uint64_t, kHashes> signature);

  /// Completes the file, which is committed by the caller.
  Result<io::AtomicFile*> finish(int64_t documents);

 private:
  struct FreeState {
    void operator()(void* state) const;
  };

  explicit SignatureWriter(io::AtomicFile file) : file_(std::move(file)) {}

  Status flush();

  io::AtomicFile file_;
  SignatureHead head_;
  int64_t size_ = 0;
  std::vector<SignedDocument> documents_;
  std::vector<std::array<uint64_t, kHashes>> signatures_;
  std::vector<uint64_t> block_;
  std::unique_ptr<void, FreeState> digest_;
};

/// Reads such a file. Errors are kCorruption for a file that is none.
class SignatureFile {
 public:
  /// most_documents: it is an error to claim more.
  static Result<SignatureFile> open(const std::string& path, int64_t most_documents);

  const SignatureHead& head() const { return head_; }

  /// Hands the documents with a signature to `take`, in order.
  Status read_documents(const std::function<Status(const SignedDocument&)>& take) const;

  /// Hands their hashes of one bucket to `take`, in order.
  Status read_bucket(
      size_t bucket,
      const std::function<Status(int64_t document, std::span<const uint64_t, kHashesPerBucket>)>&
          take) const;

 private:
  /// Reads `count` columns of 8 bytes, from column `first` on, of the block at record `at`.
  Status read_columns(int64_t at, size_t first, size_t count, std::vector<uint64_t>& into) const;

  int64_t block_records(int64_t at) const;

  io::FileDescriptor file_;
  SignatureHead head_;
  int64_t records_ = 0;
};

}  // namespace meg::cleaning
