#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/provenance_writer.h"
#include "libmeg/preprocess/internal/chunk_sink.h"
#include "libmeg/preprocess/preprocess.h"

namespace meg::preprocess {

/// output_prefix, of a shard with its number.
std::string sharded_prefix(const PreprocessOptions& options);

/// The prefixes of all datasets that preprocess() writes, those of partitions too.
std::vector<std::string> output_datasets(const PreprocessOptions& options);

/// Where preprocess() puts documents: a dataset for every key, or for every partition and key.
class DocumentSink : public ChunkSink {
 public:
  /// total_documents: of the whole input; used only for Dealing::kBlocks. run: of a shard.
  /// resume_at: if set, where another process's sink was; not with partitions.
  static Result<DocumentSink> create(const PreprocessOptions& options, DType dtype,
                                     int64_t total_documents, const dataset::ShardRun& run,
                                     const std::optional<Marks>& resume_at);

  /// Ends a finish() whose process was killed after before_publishing().
  static Status publish(const PreprocessOptions& options, DType dtype, const dataset::ShardRun& run,
                        const Marks& marks);

  Status reserve(TokenizedChunk& chunk) override;
  Status write(const TokenizedChunk& chunk) const override;
  Result<Marks> marks() override;
  Status sync() const override;

  /// Publishes all datasets together; with partitions also the merged ones, then their provenance.
  /// sources: the inputs' names. keep_going: if set, asked now and then while partitions are
  /// merged; false ends with kCancelled. before_publishing: if set, called once all is on the
  /// device.
  Status finish(const std::vector<std::string>& sources, const std::function<bool()>& keep_going,
                const std::function<Status()>& before_publishing = {});

 private:
  /// One key's datasets, one a partition.
  struct KeySink {
    std::vector<dataset::IndexedDatasetBuilder> builders;
    std::optional<dataset::IndexedDatasetBuilder> merged;  // Where there are partitions.
    std::optional<dataset::ProvenanceWriter> provenance;
    int64_t documents = 0;  // reserved so far
  };

  DocumentSink(const PreprocessOptions& options, DType dtype, int64_t total_documents);
  Status reserve_key(KeySink& sink, KeyTokens& key) const;
  size_t partition_of(int64_t document) const;
  std::string partition_prefix(size_t partition, const std::string& key) const;

  std::string output_prefix_;
  std::string_view level_;  // what a key's dataset is named by: document or sentence
  DType dtype_;
  size_t partitions_;
  Dealing dealing_;
  int64_t block_ = 1;  // documents of a block
  std::vector<KeySink> keys_;
};

}  // namespace meg::preprocess
