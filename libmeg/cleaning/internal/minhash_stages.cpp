#include "libmeg/cleaning/internal/minhash_stages.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/cleaning/duplicates/near_duplicates.h"
#include "libmeg/cleaning/internal/shared_state.h"
#include "libmeg/cleaning/internal/signature_file.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::cleaning {
namespace {

constexpr uint64_t kPairMagic = 0x3130737269617067;  // "gpairs01", little-endian

/// What stands first in a file of pairs, before two 32-bit numbers of documents for each.
struct PairHead {
  uint64_t magic = kPairMagic;
  uint64_t digest = 0;  // of all signatures
  double verified = 0;  // least Jaccard similarity; 0: none
  PairCounts counts;

  int64_t pairs() const { return counts.joined; }
};

struct Pair {
  uint32_t earlier, later;
};

/// Signatures of all shares.
struct Shares {
  std::vector<ShardFiles> paths;
  std::vector<SignatureFile> files;
  std::vector<int64_t> begins;  // the number of each share's first document
  int64_t documents = 0;
  uint64_t digest = 0;
};

Result<Shares> open_shares(const std::string& folder) {
  MEG_ASSIGN_OR_RETURN(const int64_t count, count_shards(folder));
  Shares shares;
  std::vector<SignatureHead> heads;
  for (int64_t i = 0; i < count; ++i) {
    const ShardFiles& paths =
        shares.paths.emplace_back(folder, preprocess::Shard{.index = i, .count = count});
    // Memory is needed for each document, so that there must be as many.
    MEG_ASSIGN_OR_RETURN(const io::FileDescriptor held,
                         io::FileDescriptor::open_regular(paths.documents));
    MEG_ASSIGN_OR_RETURN(const int64_t held_bytes, held.size());
    const int64_t most = held_bytes / static_cast<int64_t>(sizeof(HeldHeader));
    MEG_ASSIGN_OR_RETURN(SignatureFile file, SignatureFile::open(paths.signatures, most));
    heads.push_back(file.head());
    if (file.head().key != heads.front().key ||
        file.head().has_shingles != heads.front().has_shingles) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected `keep_key` and `verify_jaccard` as for the first share",
                        paths.signatures);
    }
    shares.begins.push_back(shares.documents);
    shares.documents += file.head().documents;
    shares.files.push_back(std::move(file));
  }
  MEG_RETURN_IF_ERROR(check_document_count(shares.documents));
  shares.digest = XXH3_64bits(heads.data(), heads.size() * sizeof(heads.front()));
  return shares;
}

std::string pair_path(const std::string& folder, size_t bucket) {
  return (std::filesystem::path(folder) / fmt::format("bucket{:02}.pairs", bucket)).string();
}

/// Of what has no name in the folder, for errors.
std::string temporary_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "temporary").string();
}

/// The shingles of all documents. memory: for their places, in bytes.
Result<ShingleSets> open_shingles(const Shares& shares, const std::string& folder, size_t memory) {
  ShingleSets sets(temporary_path(folder), memory);
  for (size_t i = 0; i < shares.files.size(); ++i) {
    const std::string& path = shares.paths[i].shingles;
    MEG_ASSIGN_OR_RETURN(io::FileDescriptor opened, io::FileDescriptor::open_regular(path));
    MEG_ASSIGN_OR_RETURN(const int64_t bytes, opened.size());
    const auto most = static_cast<uint64_t>(bytes) / sizeof(uint64_t);
    const auto file = std::make_shared<io::FileDescriptor>(std::move(opened));
    sets.add_file(
        [file](int64_t offset, std::span<std::byte> into) { return file->read_at(offset, into); });
    uint64_t claimed = 0;
    const auto wrong = [&] {
      return make_error(StatusCode::kCorruption, "{}: expected {} shingles, found {} bytes", path,
                        claimed, bytes);
    };
    MEG_RETURN_IF_ERROR(
        shares.files[i].read_documents([&](const SignedDocument& document) -> Status {
          if (document.shingles > most - claimed) return wrong();
          claimed += document.shingles;
          return sets.add(shares.begins[i] + document.document, document.shingles);
        }));
    if (claimed * sizeof(uint64_t) != static_cast<uint64_t>(bytes)) return wrong();
  }
  return sets;
}

/// Writes the pairs of a bucket; `counts` is what that took.
Status write_pairs(const Shares& shares, size_t number, size_t memory, const std::string& folder,
                   const PairVerification* verification, const Tick& tick, PairHead& head,
                   std::optional<io::AtomicFile>& file) {
  const std::string path = pair_path(folder, number);
  Bucket bucket(path + ".sorted", memory);
  for (size_t i = 0; i < shares.files.size(); ++i) {
    const auto add = [&](int64_t document, std::span<const uint64_t, kHashesPerBucket> hashes) {
      return bucket.add(static_cast<uint32_t>(shares.begins[i] + document), hashes);
    };
    MEG_RETURN_IF_ERROR(shares.files[i].read_bucket(number, add));
  }
  MEG_RETURN_IF_ERROR(bucket.sort());
  MEG_ASSIGN_OR_RETURN(file, io::AtomicFile::create_regular(path));
  head.digest = shares.digest;
  MEG_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(&head, 1))));
  std::vector<Pair> pairs;
  const auto flush = [&] {
    const Status written = file->write(std::as_bytes(std::span(pairs)));
    pairs.clear();
    return written;
  };
  constexpr size_t kPairsAtOnce = size_t{1} << 16;
  const auto join = [&](uint32_t earlier, uint32_t later) {
    pairs.push_back({.earlier = earlier, .later = later});
    return pairs.size() < kPairsAtOnce ? Status() : flush();
  };
  MEG_ASSIGN_OR_RETURN(head.counts, bucket.find_pairs({}, verification, tick, join));
  MEG_RETURN_IF_ERROR(flush());
  return file->write_at(0, std::as_bytes(std::span(&head, 1)));
}

/// Joins the pairs of a bucket.
Result<PairHead> read_pairs(const Shares& shares, const std::string& path, const Tick& tick,
                            Clusters& clusters) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  PairHead head{.magic = 0, .counts = {}};
  constexpr auto kHeadSize = static_cast<int64_t>(sizeof(PairHead));
  if (size >= kHeadSize) {
    MEG_RETURN_IF_ERROR(file.read_exactly_at(0, std::as_writable_bytes(std::span(&head, 1))));
  }
  const int64_t pairs = (size - kHeadSize) / static_cast<int64_t>(sizeof(Pair));
  if (head.magic != kPairMagic || head.pairs() != pairs ||
      size != kHeadSize + pairs * static_cast<int64_t>(sizeof(Pair))) {
    return make_error(StatusCode::kCorruption, "{}: expected a file of pairs", path);
  }
  if (head.digest != shares.digest) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected pairs of the signatures that are here, found those of others",
                      path);
  }
  constexpr int64_t kPairsAtOnce = int64_t{1} << 16;
  std::vector<Pair> read;
  for (int64_t at = 0; at < pairs; at += std::ssize(read)) {
    MEG_RETURN_IF_ERROR(tick(at));
    read.resize(static_cast<size_t>(std::min(pairs - at, kPairsAtOnce)));
    MEG_RETURN_IF_ERROR(file.read_exactly_at(
        static_cast<uint64_t>(kHeadSize + at * static_cast<int64_t>(sizeof(Pair))),
        std::as_writable_bytes(std::span(read))));
    for (const Pair& pair : read) {
      if (std::max(pair.earlier, pair.later) >= shares.documents) {
        return make_error(StatusCode::kCorruption, "{}: document {}: expected 0 to {}", path,
                          std::max(pair.earlier, pair.later), shares.documents - 1);
      }
      clusters.join(pair.earlier, pair.later);
    }
  }
  return head;
}

CleanSummary summary_of(const Shares& shares) {
  CleanSummary summary;
  summary.steps.push_back({.name = "near_duplicates", .reasons = {}, .samples = {}});
  summary.documents = summary.steps.back().documents = shares.documents;
  return summary;
}

Status write_marks(const Shares& shares, const std::vector<bool>& is_removed,
                   CleanSummary& summary) {
  std::vector<io::AtomicFile> files;
  std::vector<io::AtomicFile*> all;
  for (size_t i = 0; i < shares.files.size(); ++i) {
    std::string marks;
    const int64_t end = shares.begins[i] + shares.files[i].head().documents;
    for (int64_t document = shares.begins[i]; document < end; ++document) {
      marks += is_removed[static_cast<size_t>(document)] ? '\1' : '\0';
    }
    summary.steps.back().removed += std::count(marks.begin(), marks.end(), '\1');
    MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(shares.paths[i].removed));
    MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(marks))));
    files.push_back(std::move(file));
  }
  for (io::AtomicFile& file : files) all.push_back(&file);
  return io::AtomicFile::commit_all(all);
}

}  // namespace

Tick make_tick(const ProgressCallback& progress) {
  return [&progress, mutex = std::make_shared<std::mutex>()](int64_t signatures) -> Status {
    const std::lock_guard lock(*mutex);
    Progress now;
    now.documents = signatures;
    now.counted = "signatures";
    if (!progress || progress(now)) return {};
    return Status(StatusCode::kCancelled, "interrupted");
  };
}

void warn_of_missing_values(const CleanOptions& options, int64_t documents, CleanSummary& summary) {
  if (documents == 0) return;
  summary.warnings.push_back(fmt::format(
      "{} documents have no number at \"{}\", which decides which near duplicate stays: "
      "they stay after all that have one",
      documents, options.kept_duplicate_key));
}

Result<CleanSummary> write_bucket_pairs(const CleanOptions& options,
                                        const ProgressCallback& progress) {
  MEG_ASSIGN_OR_RETURN(const Shares shares, open_shares(options.minhash_folder));
  auto memory = static_cast<size_t>(options.memory);
  ShingleSets shingles;
  std::optional<PairVerification> verification;
  if (options.verify_jaccard) {
    if (shares.files.front().head().has_shingles == 0) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: `verify_jaccard`: expected it with signatures, too",
                        options.minhash_folder);
    }
    MEG_ASSIGN_OR_RETURN(shingles, open_shingles(shares, options.minhash_folder, memory / 4));
    memory -= memory / 4;
    verification.emplace(PairVerification{.shingles = shingles, .least = *options.verify_jaccard});
  }
  std::vector<size_t> buckets;
  for (size_t i = 0; i < kBucketCount; ++i) {
    if (static_cast<int64_t>(i) % options.input.shard.count == options.input.shard.index) {
      buckets.push_back(i);
    }
  }
  CleanSummary summary = summary_of(shares);
  if (buckets.empty()) {
    summary.warnings.push_back(fmt::format("shard {}/{} of the buckets has none: there are {}",
                                           options.input.shard.index, options.input.shard.count,
                                           kBucketCount));
    return summary;
  }
  ThreadPool pool(std::min(options.workers, static_cast<int>(buckets.size())));
  const size_t share = memory / static_cast<size_t>(pool.threads());
  const Tick tick = make_tick(progress);
  std::vector<Status> statuses(buckets.size());
  std::vector<PairHead> heads(buckets.size());
  std::vector<std::optional<io::AtomicFile>> files(buckets.size());
  for (size_t i = 0; i < buckets.size(); ++i) {
    heads[i].verified = options.verify_jaccard.value_or(0);
    pool.submit([&, i] {
      statuses[i] = write_pairs(shares, buckets[i], share, options.minhash_folder,
                                verification ? &*verification : nullptr, tick, heads[i], files[i]);
    });
  }
  pool.wait();
  std::vector<io::AtomicFile*> all;
  for (size_t i = 0; i < buckets.size(); ++i) {
    MEG_RETURN_IF_ERROR(statuses[i]);
    all.push_back(&*files[i]);
    summary.candidate_pairs += heads[i].counts.candidates;
    summary.joined_pairs += heads[i].counts.joined;
  }
  summary.kept = shares.documents;
  MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(all));
  return summary;
}

Result<CleanSummary> write_removed(const CleanOptions& options, const ProgressCallback& progress) {
  MEG_ASSIGN_OR_RETURN(const Shares shares, open_shares(options.minhash_folder));
  if (!options.kept_duplicate_key.empty() &&
      shares.files.front().head().key != key_digest(options.kept_duplicate_key)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: `keep_key`: expected the same key with signatures",
                      options.minhash_folder);
  }
  Clusters clusters(options.kept_duplicate, temporary_path(options.minhash_folder),
                    static_cast<size_t>(options.memory) / Clusters::kArrays);
  if (Clusters::asks_for_facts(options.kept_duplicate)) {
    for (size_t i = 0; i < shares.files.size(); ++i) {
      const auto add = [&](const SignedDocument& document) -> Status {
        return clusters.add_facts(shares.begins[i] + document.document, document.facts);
      };
      MEG_RETURN_IF_ERROR(shares.files[i].read_documents(add));
    }
  }
  CleanSummary summary = summary_of(shares);
  MEG_RETURN_IF_ERROR(clusters.begin(shares.documents));
  double verified = 0;
  for (size_t i = 0; i < kBucketCount; ++i) {
    const std::string path = pair_path(options.minhash_folder, i);
    MEG_ASSIGN_OR_RETURN(const PairHead head,
                         read_pairs(shares, path, make_tick(progress), clusters));
    if (i == 0) verified = head.verified;
    if (head.verified != verified) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected pairs with `verify_jaccard` {} as in the first bucket, found "
                        "{} (0: none)",
                        path, verified, head.verified);
    }
    summary.candidate_pairs += head.counts.candidates;
    summary.joined_pairs += head.counts.joined;
  }
  MEG_ASSIGN_OR_RETURN(const Clusters::Found found, clusters.find());
  summary.clusters = found.clusters;
  for (const Clusters::Cluster& cluster : found.largest) {
    summary.largest_clusters.push_back({.documents = cluster.documents, .kept = {}, .removed = {}});
  }
  warn_of_missing_values(options, clusters.without_value(), summary);
  MEG_RETURN_IF_ERROR(write_marks(shares, found.removed, summary));
  summary.kept = shares.documents - summary.steps.back().removed;
  return summary;
}

}  // namespace meg::cleaning
