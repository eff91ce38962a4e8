#include "libmeg/preprocess/internal/document_sink.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

// Reserving and writing are apart. reserve() runs in the input's order and only adds up lengths: it
// fixes where every document of a chunk goes. write() puts the tokens there with pwrite from any
// thread. So outputs do not depend on threads, and no thread waits for another's bytes to be
// written.

namespace meg::preprocess {
namespace {

std::string shard_suffix(const Shard& shard) {
  if (shard.count == 1) return {};
  return fmt::format("_shard{:05}of{:05}", shard.index, shard.count);
}

std::string_view level_of(const PreprocessOptions& options) {
  return options.sentences.has_value() ? "sentence" : "document";
}

std::string dataset_prefix(const std::string& output_prefix, const std::string& key,
                           std::string_view level) {
  return fmt::format("{}_{}_{}", output_prefix, key, level);
}

std::string partition_name(const std::string& output_prefix, size_t partition) {
  return fmt::format("{}_{}", output_prefix, partition);
}

}  // namespace

std::string sharded_prefix(const PreprocessOptions& options) {
  return options.output_prefix + shard_suffix(options.input.shard);
}

std::vector<std::string> output_datasets(const PreprocessOptions& options) {
  std::vector<std::string> names = {sharded_prefix(options)};
  for (int k = 0; options.partitions > 1 && k < options.partitions; ++k) {
    names.push_back(partition_name(options.output_prefix, static_cast<size_t>(k)));
  }
  std::vector<std::string> datasets;
  for (const std::string& key : options.json_keys) {
    for (const std::string& name : names) {
      datasets.push_back(dataset_prefix(name, key, level_of(options)));
    }
  }
  return datasets;
}

DocumentSink::DocumentSink(const PreprocessOptions& options, DType dtype, int64_t total_documents)
    : output_prefix_(sharded_prefix(options)),
      level_(level_of(options)),
      dtype_(dtype),
      partitions_(static_cast<size_t>(options.partitions)),
      dealing_(options.dealing),
      block_(
          std::max<int64_t>((total_documents + options.partitions - 1) / options.partitions, 1)) {}

Result<DocumentSink> DocumentSink::create(const PreprocessOptions& options, DType dtype,
                                          int64_t total_documents, const dataset::ShardRun& run,
                                          const std::optional<Marks>& resume_at) {
  DocumentSink sink(options, dtype, total_documents);
  for (const std::string& key : options.json_keys) {
    dataset::IndexedDatasetBuilder::Options builder_options{.format = options.format,
                                                            .dtype = dtype,
                                                            .tokenizer = options.dataset_tokenizer,
                                                            .shard_run = run};
    if (resume_at.has_value()) builder_options.resume_at = (*resume_at)[sink.keys_.size()];
    KeySink& key_sink = sink.keys_.emplace_back();
    for (size_t k = 0; k < sink.partitions_; ++k) {
      MEG_ASSIGN_OR_RETURN(
          dataset::IndexedDatasetBuilder builder,
          dataset::IndexedDatasetBuilder::create(sink.partition_prefix(k, key), builder_options));
      key_sink.builders.push_back(std::move(builder));
    }
    if (options.provenance) {
      std::optional<int64_t> documents;
      if (resume_at.has_value()) documents = resume_at->at(sink.keys_.size() - 1).documents;
      MEG_ASSIGN_OR_RETURN(key_sink.provenance, dataset::ProvenanceWriter::create(
                                                    sink.partition_prefix(0, key), documents));
    }
    if (sink.partitions_ == 1) continue;
    const std::string prefix = dataset_prefix(options.output_prefix, key, sink.level_);
    MEG_ASSIGN_OR_RETURN(key_sink.merged, dataset::IndexedDatasetBuilder::create(
                                              prefix, {.format = options.format,
                                                       .dtype = dtype,
                                                       .tokenizer = options.dataset_tokenizer}));
  }
  return sink;
}

std::string DocumentSink::partition_prefix(size_t partition, const std::string& key) const {
  if (partitions_ == 1) return dataset_prefix(output_prefix_, key, level_);
  return dataset_prefix(partition_name(output_prefix_, partition), key, level_);
}

size_t DocumentSink::partition_of(int64_t document) const {
  if (partitions_ == 1) return 0;
  if (dealing_ == Dealing::kRoundRobin) return static_cast<size_t>(document) % partitions_;
  // Blocks may not divide evenly: what remains goes to the last partition.
  return std::min(static_cast<size_t>(document / block_), partitions_ - 1);
}

Status DocumentSink::reserve(TokenizedChunk& chunk) {
  for (size_t i = 0; i < keys_.size(); ++i) {
    MEG_RETURN_IF_ERROR(reserve_key(keys_[i], chunk.keys[i]));
    if (keys_[i].provenance) MEG_RETURN_IF_ERROR(keys_[i].provenance->append(chunk.places));
  }
  return Status();
}

Status DocumentSink::reserve_key(KeySink& sink, KeyTokens& key) const {
  std::span<const int32_t> counts = key.document_sequence_counts;
  std::span<const int32_t> lengths = key.sequence_lengths;
  int64_t first_token = 0;
  while (!counts.empty()) {
    const size_t partition = partition_of(sink.documents);
    // Without partitions a chunk is one run; dealt round robin, almost every document is one of its
    // own.
    size_t documents = 1;
    if (partitions_ == 1) documents = counts.size();
    while (documents < counts.size() &&
           partition_of(sink.documents + static_cast<int64_t>(documents)) == partition) {
      ++documents;
    }
    const auto run = counts.first(documents);
    const auto sequences = static_cast<size_t>(std::accumulate(run.begin(), run.end(), int64_t{0}));
    const auto run_lengths = lengths.first(sequences);
    const int64_t tokens = std::accumulate(run_lengths.begin(), run_lengths.end(), int64_t{0});
    MEG_ASSIGN_OR_RETURN(const int64_t offset, sink.builders[partition].reserve(run_lengths, run));
    key.pieces.push_back({partition, offset, first_token, tokens});
    first_token += tokens;
    sink.documents += static_cast<int64_t>(documents);
    counts = counts.subspan(documents);
    lengths = lengths.subspan(sequences);
  }
  return Status();
}

Status DocumentSink::write(const TokenizedChunk& chunk) const {
  const auto item_size = static_cast<size_t>(dtype_size(dtype_));
  for (size_t i = 0; i < keys_.size(); ++i) {
    const auto bytes = chunk.keys[i].tokens.bytes();
    for (const KeyTokens::Piece& piece : chunk.keys[i].pieces) {
      MEG_RETURN_IF_ERROR(keys_[i].builders[piece.dataset].write_at(
          piece.offset, bytes.subspan(static_cast<size_t>(piece.first_token) * item_size,
                                      static_cast<size_t>(piece.token_count) * item_size)));
    }
  }
  return Status();
}

Result<DocumentSink::Marks> DocumentSink::marks() {
  Marks marks;
  for (KeySink& sink : keys_) {
    if (sink.provenance) MEG_RETURN_IF_ERROR(sink.provenance->flush());
    MEG_ASSIGN_OR_RETURN(marks.emplace_back(), sink.builders.front().mark());
  }
  return marks;
}

Status DocumentSink::sync() const {
  for (const KeySink& sink : keys_) {
    for (const auto& builder : sink.builders) MEG_RETURN_IF_ERROR(builder.sync());
    if (sink.provenance) MEG_RETURN_IF_ERROR(sink.provenance->sync());
  }
  return Status();
}

// A run that was killed between its last write and its last rename. Everything is on the disk under
// temporary names, so publishing is all that is left.
Status DocumentSink::publish(const PreprocessOptions& options, DType dtype,
                             const dataset::ShardRun& run, const Marks& marks) {
  std::vector<dataset::IndexedDatasetBuilder::Finished> datasets;
  for (size_t i = 0; i < marks.size(); ++i) {
    const std::string prefix =
        dataset_prefix(sharded_prefix(options), options.json_keys[i], level_of(options));
    datasets.push_back({prefix, options.format, dtype, marks[i], options.dataset_tokenizer, run});
  }
  MEG_RETURN_IF_ERROR(dataset::IndexedDatasetBuilder::publish_all(datasets));
  for (const auto& finished : datasets) {
    if (!options.provenance) break;
    MEG_RETURN_IF_ERROR(dataset::ProvenanceWriter::publish_kept(finished.prefix));
  }
  return Status();
}

Status DocumentSink::finish(const std::vector<std::string>& sources,
                            const std::function<bool()>& keep_going,
                            const std::function<Status()>& before_publishing) {
  std::vector<dataset::IndexedDatasetBuilder*> builders;
  for (KeySink& sink : keys_) {
    for (dataset::IndexedDatasetBuilder& builder : sink.builders) {
      // Megatron merges its partitions in the same way, partition after partition.
      if (sink.merged.has_value())
        MEG_RETURN_IF_ERROR(sink.merged->add_builder(builder, keep_going));
      builders.push_back(&builder);
    }
    if (sink.merged.has_value()) builders.push_back(&*sink.merged);
    if (!sink.provenance) continue;
    MEG_RETURN_IF_ERROR(sink.provenance->complete(sources));
    MEG_RETURN_IF_ERROR(sink.provenance->sync());
  }
  // All or none: a reader that finds one key's dataset finds the others.
  MEG_RETURN_IF_ERROR(dataset::IndexedDatasetBuilder::finish_all(builders, before_publishing));
  for (KeySink& sink : keys_) {
    // Publish after the datasets: provenance without its dataset would describe an older one.
    if (sink.provenance) MEG_RETURN_IF_ERROR(sink.provenance->publish());
  }
  return Status();
}

}  // namespace meg::preprocess
