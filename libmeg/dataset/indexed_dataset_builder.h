#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/shard_run.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::dataset {

/// Writes PREFIX.bin and PREFIX.idx. Both appear together at finish(), by rename; without
/// it nothing is left behind. Until then PREFIX.lock is held, so that no other process writes this
/// dataset. Memory does not grow with the number of sequences: lengths are spooled to disk. After
/// an error the builder can only be destroyed. Mirrors Megatron-LM
/// megatron/core/datasets/indexed_dataset.py: IndexedDatasetBuilder, and 6ef5bdc
/// megatron/data/indexed_dataset.py: IndexedDatasetBuilder.
class IndexedDatasetBuilder {
 public:
  /// How much a builder has taken.
  struct Mark {
    int64_t sequences = 0;
    int64_t documents = 0;
    int64_t items = 0;  ///< tokens
  };

  struct Options {
    IndexFormat format = IndexFormat::kMmididx;
    DType dtype = DType::kInt32;       ///< TNTIDX: not kUint16.
    bool multimodal = false;           ///< Write a mode for every sequence; MMIDIDX only.
    bool legacy_float64_code = false;  ///< float64 as Megatron-LM up to v2.6 marks it (code 7).
    /// If set, writes `PREFIX.bin.resume` and `PREFIX.idx*.resume`, which are kept until finish(),
    /// and starts where another process's builder was at this mark(), discarding what came after;
    /// all zeros: from the start. kCorruption if those files do not agree with the mark. Not with
    /// `multimodal`.
    std::optional<Mark> resume_at = std::nullopt;
    /// The tokenizer of the ids, stored in PREFIX.libmeg, which appears together with the pair.
    std::optional<DatasetTokenizer> tokenizer = std::nullopt;
    ShardRun shard_run = {};  ///< For a shard: written to PREFIX.libmeg.
  };

  /// prefix: may end in ".bin" or ".idx". kInvalidArgument for a dtype or modes that the format
  /// cannot have, for files that are pipes or devices and for the name of a view, kIoError if
  /// another process is writing this dataset.
  static Result<IndexedDatasetBuilder> create(const std::string& prefix, const Options& options);
  IndexedDatasetBuilder(IndexedDatasetBuilder&&) noexcept;
  IndexedDatasetBuilder& operator=(IndexedDatasetBuilder&&) noexcept;
  ~IndexedDatasetBuilder();

  /// Appends one sequence to the current document. items: a whole number of elements of the dtype,
  /// little endian, at most INT32_MAX of them. mode: 0 unless the dataset is multimodal.
  Status add_item(std::span<const std::byte> items, int8_t mode = 0);

  /// Ends the current document; it may be empty.
  Status end_document();

  /// Adds many documents at once, for parallel writers: records their lengths (items of every
  /// sequence) and the number of sequences of each document, and returns the byte offset in .bin
  /// where the caller then writes the items with write_at(). The order of reserve() calls
  /// determines the order of the documents; they must not overlap in time with each other or with
  /// add_item, nor occur inside a document. sequence_modes: one per sequence, only if the dataset
  /// is multimodal; empty if all are 0.
  Result<int64_t> reserve(std::span<const int32_t> sequence_lengths,
                          std::span<const int32_t> document_sequence_counts,
                          std::span<const int8_t> sequence_modes = {});

  /// Safe to call from several threads at once, also during reserve(), for ranges that reserve()
  /// returned. Every reserved byte must be written once before finish().
  Status write_at(int64_t offset, std::span<const std::byte> items) const;

  /// write_at() of `bytes` bytes of a file, from byte `from_offset` on, by
  /// io::FileDescriptor::copy_from.
  Status copy_at(int64_t offset, const io::FileDescriptor& from, int64_t from_offset, int64_t bytes,
                 const io::FileDescriptor::Moved& moved = {}) const;

  /// Appends the whole dataset at `prefix`, whose dtype and multimodal must be the builder's and
  /// whose lengths, pointers and .bin size must agree (kCorruption).
  /// Mirrors IndexedDatasetBuilder.add_index.
  Status add_index(const std::string& prefix);

  /// Appends everything that `other` has received so far, whole documents of the same dtype.
  /// keep_going: if set, called about every MiB; return false to end with kCancelled.
  Status add_builder(IndexedDatasetBuilder& other, const std::function<bool()>& keep_going = {});

  /// What this resumable builder has received so far; its index has been written to the system. The
  /// caller knows when the items reserved before have been written; sync() then makes it durable.
  Result<Mark> mark();

  /// Flushes the files to the device; from any thread.
  Status sync() const;

  const Options& options() const;
  const std::string& bin_path() const;  ///< Where .bin will be.
  int64_t sequence_count() const;
  int64_t document_count() const;
  int64_t item_count() const;  ///< tokens

  /// Completes both files and publishes them, .idx last. After that only the builder's counts may
  /// be used. kInvalidArgument if the last document has not ended or reserved bytes were not
  /// written.
  Status finish();

  /// finish() of several: all are complete and on the device before the first file is renamed.
  /// before_publishing: called in between; may be empty. beside: further files, which are published
  /// with them; older ones of all go before the first new one appears.
  static Status finish_all(std::span<IndexedDatasetBuilder* const> builders,
                           const std::function<Status()>& before_publishing = {},
                           std::span<io::AtomicFile* const> beside = {});

  /// A dataset that a resumable builder has finished.
  struct Finished {
    std::string prefix;
    IndexFormat format = IndexFormat::kMmididx;
    DType dtype = DType::kInt32;
    Mark mark;
    std::optional<DatasetTokenizer> tokenizer;
    ShardRun shard_run = {};
  };

  /// Completes a finish_all() of resumable builders whose process was killed after
  /// before_publishing(); if it was complete, only PREFIX.libmeg is rewritten. kCorruption if the
  /// files are not the expected ones.
  static Status publish_all(std::span<const Finished> datasets);

 private:
  struct State;
  explicit IndexedDatasetBuilder(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace meg::dataset
