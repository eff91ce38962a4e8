#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/preprocess/sentences/sentence_options.h"
#include "libmeg/preprocess/sources/input_options.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::preprocess {

/// What to do with an invalid line.
enum class OnError {
  kFail,  ///< Ends the work; nothing is written.
  kSkip,  ///< Is left out for every key, counted and reported.
};

/// How documents are distributed over partitions.
enum class Dealing {
  kRoundRobin,  ///< Document i goes to partition i % n.
  kBlocks,      ///< Blocks of ceil(documents / n); the merged order is the input's.
};

struct PreprocessOptions {
  /// Files, folders (their files sorted by name), glob patterns and "-", standard input, in order.
  std::vector<std::string> inputs;
  InputOptions input;
  std::optional<int64_t> max_documents;  ///< Stops after this many documents; at least 1.
  /// The prefix in `<prefix>_<key>_document.{bin,idx}` or `_sentence`; a shard's is
  /// `<prefix>_shard00001of00004_<key>_document`.
  std::string output_prefix;
  std::vector<std::string> json_keys = {"text"};
  bool append_eod = false;
  bool skip_empty_documents = false;  ///< Leave documents without tokens out, as v2.6 did.
  /// Leave documents with fewer tokens out, of every key: those of all keys count together,
  /// end-of-document tokens do not count.
  int64_t min_tokens = 0;
  /// Each sentence of a text becomes a sequence; each text in a list is treated as a sentence.
  std::optional<SentenceOptions> sentences;
  /// Also writes `<dataset>.provenance`: where each document was read. Not with partitions, nor if
  /// empty documents are dropped.
  bool provenance = false;
  OnError on_error = OnError::kFail;
  dataset::IndexFormat format = dataset::IndexFormat::kMmididx;
  /// kUint16 or kInt32; without it optimal_dtype(vocab_size). TNTIDX: kInt32 for any vocabulary.
  std::optional<DType> dtype;

  /// More than 1: the documents are distributed over `<prefix>_<k>_<key>_document`, k from 0, which
  /// are then merged in order into `<prefix>_<key>_document`.
  int partitions = 1;
  Dealing dealing = Dealing::kRoundRobin;

  /// Continues where an earlier process with these options was killed, according to
  /// `<prefix>.resume/journal`; does nothing if that one finished. Such a run keeps its state when
  /// it is killed or fails. Not with partitions, pipes and standard input.
  bool resume = false;
  /// Names and values of everything else that the tokens depend on, such as the tokenizer's files:
  /// a change is an error.
  std::vector<std::pair<std::string, std::string>> resume_identity;
  /// The same for settings that no file determines, such as the revision of Megatron: shards with
  /// different values cannot be merged.
  std::vector<std::pair<std::string, std::string>> shard_settings;
  /// How much work a killed process may lose.
  std::chrono::milliseconds checkpoint_interval{2000};

  /// Written beside the datasets; empty: nothing is.
  std::optional<dataset::DatasetTokenizer> dataset_tokenizer;

  int workers = 1;                       ///< Threads that tokenize.
  size_t chunk_bytes = size_t{1} << 20;  ///< Input bytes that a worker processes at a time.
};

struct PreprocessSummary {
  int64_t documents = 0;        ///< Lines that gave a document, even an empty one.
  int64_t short_documents = 0;  ///< Left out for min_tokens.
  int64_t tokens = 0;           ///< In all keys, end-of-document tokens included.
  int64_t input_bytes = 0;      ///< Read.
  int64_t text_bytes = 0;   ///< UTF-8 of the texts that were tokenized, short documents included.
  int64_t text_tokens = 0;  ///< Their tokens, without end-of-document tokens.
  int64_t blank_lines = 0;
  int64_t skipped_lines = 0;
  std::vector<std::string> datasets;          ///< Prefixes of the datasets written.
  bool was_finished = false;                  ///< An earlier process did it all; its counts.
  std::vector<std::string> skipped_examples;  ///< Messages of the first skipped lines.
  std::vector<std::string> warnings;          ///< Warnings for the user; usually empty.
};

/// The dtype of a dataset that is written: `asked` for, or that of the format and the vocabulary.
/// kInvalidArgument where it cannot hold the ids or the format cannot have it.
Result<DType> dataset_dtype(std::optional<DType> asked, dataset::IndexFormat format,
                            const tokenizer::Tokenizer& tokenizer);

/// Texts (JSON, csv, plain) -> token datasets, one for every key, in one pass.
///
/// Neither the bytes nor the reported error, which is the first one in the input, depend on the
/// number of workers or the size of chunks. Memory is bounded by workers x chunk and the longest
/// line. All outputs appear at the end; after an error nothing is left behind, unless the run can
/// be resumed. progress: called from the calling thread about 20 times a second, also while lines
/// are counted or partitions merged, and once before the outputs appear; may be empty. Errors:
/// kInvalidArgument for options and lines (`FILE: line L, byte B: ...`) and where a run to resume
/// had other ones, kCancelled, those of TextSource::open and IndexedDatasetBuilder,
/// kResourceExhausted without memory. Mirrors Megatron-LM tools/preprocess_data.py:
/// Partition.process_json_file.
Result<PreprocessSummary> preprocess(const PreprocessOptions& options,
                                     const tokenizer::Tokenizer& tokenizer,
                                     const ProgressCallback& progress);

/// A document as preprocess() would write it.
struct TokenizedDocument {
  std::span<const int32_t> tokens;            ///< Of its sequences, one after another.
  std::span<const int32_t> sequence_lengths;  ///< tokens
  dataset::DocumentPlace place;               ///< Where it was read.
};

/// An error ends the work.
using DocumentVisitor = std::function<Status(const TokenizedDocument&)>;

struct VisitedDocuments {
  PreprocessSummary summary;         ///< Without datasets.
  std::vector<std::string> sources;  ///< Names of the inputs, by their numbers in places.
};

/// preprocess() without a dataset: calls visitor with each document of the input, in its order and
/// one at a time. options: one key; without partitions and resume, and nothing of the output is
/// used. Errors: those of preprocess() that do not concern outputs, and the visitor's.
Result<VisitedDocuments> visit_documents(const PreprocessOptions& options,
                                         const tokenizer::Tokenizer& tokenizer,
                                         const DocumentVisitor& visitor,
                                         const ProgressCallback& progress);

}  // namespace meg::preprocess
