#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/preprocess/sources/input_options.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::cleaning {

/// A key of a JSON object, and what its value must be for the document to stay.
struct KeyRule {
  std::string key;
  std::optional<std::string> pattern;  ///< RE2 that must occur in a string.
  std::optional<double> min, max;      ///< Of a number; both ends are allowed.
};

/// What exact duplicates are.
enum class DuplicateUnit { kDocument, kParagraph, kLine };

/// Which document of a cluster of near duplicates stays.
enum class KeptDuplicate {
  kRoot,  ///< That which datatrove keeps: about the first of the largest group that was joined.
  kFirst,
  kLongest,  ///< By its text's bytes; of equal ones the first.
  /// By the number at `kept_duplicate_key`, as a double; of equal ones the first. Any number goes
  /// before a document without one.
  kHighest,
  kLowest,
};

/// Which URLs go.
struct UrlOptions {
  std::string key;                   ///< Of the URL in a JSON object; empty: the text is the URL.
  std::vector<std::string> filters;  ///< Of url_filters(), which are asked in that order.
  std::string blacklist;             ///< A file; empty: that of Megatron-LM's blacklist_urls.py.
  std::string patterns;              ///< A file of RE2 patterns, one a line; empty: none.
  /// A file of groups of URLs, as group_duplicates() and Megatron-LM's group_duplicate_url.py write
  /// them: of each all but the first go; empty: none.
  std::string groups;
};

/// "domain" and "extension", those of the blacklist, "short", up to 8 characters, and "malformed".
std::span<const std::string_view> url_filters();

/// Which languages stay.
struct LanguageOptions {
  std::vector<std::string> languages;  ///< Empty: all of those that can be told.
  /// That the score of one of them must exceed; at least 0, less than 1. The default is
  /// datatrove's.
  double threshold = 0.65;
  /// A model of fastText, whose labels are the languages; empty: a rule of scripts and stop words
  /// with names of ISO 639-1, which is worse for short texts and close languages.
  std::string model;
};

/// A part of finding near duplicates on several machines, which share a folder.
enum class MinHashStage {
  kAll,         ///< All of it in one call.
  kSignatures,  ///< Of share `input.shard`: its documents and their signatures go to the folder.
  kBuckets,     ///< Of share `input.shard` of the buckets: pairs of all shares' documents.
  kClusters,    ///< Of all shares together, once: which documents go.
  kFilter,      ///< Of share `input.shard`: the documents that stay go to the output.
};

/// What is done with documents that share n-grams of words with test sets.
enum class Contaminated {
  kCut,  ///< As by Megatron-LM's filter_ngrams.py: what remains becomes documents of its own.
  kDrop,
};

/// Test sets and how documents are compared with them; the defaults are filter_ngrams.py's.
struct DecontaminateOptions {
  std::vector<std::string> test_sets;  ///< Inputs, as CleanOptions::inputs.
  std::string key = "text";            ///< Of their texts.
  Contaminated contaminated = Contaminated::kCut;
  int64_t max_ngram_size = 13;  ///< Of a text with fewer words all of them are one n-gram,
  int64_t min_ngram_size = 8;   ///< unless there are fewer than this.
  /// N-grams that occur in at least this many documents are taken for common phrases and ignored;
  /// 0: none are, and the input is read only once.
  int64_t key_threshold = 10;
  int64_t remove_char_each_side = 200;  ///< Cut around an n-gram, and on to the end of a sentence.
  int64_t filter_text_char_len = 200;   ///< Parts of no more characters go.
  int64_t splits_count = 10;            ///< Documents in more parts go.
};

/// A part of the documents, written to a file of its own.
struct Split {
  std::string name;
  double share = 0;  ///< The shares of all splits make 1.
};

/// Datasets as output, with the bytes that preprocess() would write for the JSON lines.
struct DatasetOutput {
  bool append_eod = false;
  dataset::IndexFormat format = dataset::IndexFormat::kMmididx;
  std::optional<DType> dtype;  ///< As PreprocessOptions::dtype.
  /// Also writes `<dataset>.provenance`: where each document was read. Parts of one document have
  /// the same place.
  bool provenance = false;
  std::optional<dataset::DatasetTokenizer> tokenizer;  ///< Written beside the dataset.
};

/// What is done with documents. Steps run in the order of these fields.
struct CleanOptions {
  std::vector<std::string> inputs;
  preprocess::InputOptions input;
  /// The first holds the text. Of JSON all keys are written, of other formats these.
  std::vector<std::string> json_keys = {"text"};
  preprocess::OnError on_error = preprocess::OnError::kFail;

  std::vector<std::string> repair;  ///< Of repair_rules(), which run in that order.
  std::optional<UrlOptions> urls;   ///< A document without URL goes.
  std::vector<KeyRule> key_rules;   ///< A missing key, or one of another type, does not fit.
  std::optional<int64_t> min_chars, max_chars;      ///< Characters (code points) of the text.
  std::optional<int64_t> min_tokens, max_tokens;    ///< Tokens of the text by `tokenizer`.
  const tokenizer::Tokenizer* tokenizer = nullptr;  ///< Also of `dataset`.
  std::optional<LanguageOptions> language;
  std::vector<std::string> quality;  ///< Of quality_rules(), which run in that order.
  std::optional<double> sample;  ///< The share of documents that stay, by their drawn_numbers().
  std::optional<DecontaminateOptions> decontaminate;
  bool exact_duplicates = false;  ///< Of equal texts only the first stays.
  /// Of equal paragraphs (between two LF or more) or lines of all texts only the first stays, but
  /// those of whitespace alone stay; a text in which no others do goes. Not with near_duplicates.
  DuplicateUnit duplicate_unit = DuplicateUnit::kDocument;
  std::string duplicates_by;  ///< Compares the values of this JSON key, not texts.
  /// Of texts that share about 0.72 of their 5-grams of words or more only one stays, by the
  /// MinHash signatures of datatrove 0.10 with its defaults.
  bool near_duplicates = false;
  KeptDuplicate kept_duplicate = KeptDuplicate::kRoot;
  std::string kept_duplicate_key;  ///< Of JSON objects, for kHighest and kLowest.
  /// Joins two documents with a common bucket only if their 5-grams have this Jaccard similarity,
  /// |A and B| / |A or B|, more than 0, up to 1. In the group of documents with one bucket's hashes
  /// a document is compared with the group's leaders, in order, and joined with the first that is
  /// similar; if none is, it becomes a leader itself, up to 16.
  std::optional<double> verify_jaccard;
  /// Not with exact_duplicates, shuffle, splits and max_documents, which need all documents.
  MinHashStage minhash_stage = MinHashStage::kAll;
  std::string minhash_folder;
  /// Puts documents into another order: by the XXH3-64, with `seed`, of the 8 bytes, little-endian,
  /// of the number that a document has among those that stay, from 0.
  bool shuffle = false;
  std::optional<int64_t> max_documents;  ///< Ends the output, and the work where that is possible.

  /// JSON lines; where the name ends in .txt, only the texts, which must not have lines; compressed
  /// where it ends in .gz or .zst. With `dataset` what stands before `_KEY_document` in its name,
  /// where KEY is the first of json_keys.
  std::string output;
  std::optional<DatasetOutput> dataset;  ///< Not with id_prefix.
  /// Where there are some, `output` has `{split}` in place of their names.
  std::vector<Split> splits;
  /// Adds the key adlr_id, as Megatron-LM's add_id.py: this, `-` and the number of the document
  /// among all that are written, from 1, of at least ten digits.
  std::optional<std::string> id_prefix;
  uint64_t seed = 1234;  ///< Of sample, splits and shuffle.
  std::string hash_key;  ///< The JSON key whose values sample and splits go by; empty: the text.

  /// Continues where an earlier process with the same options was killed, according to
  /// `<output>.resume/journal`; does nothing if that one finished. Such a run keeps its state when
  /// it is killed or fails. Not with minhash_stage, pipes and standard input.
  bool resume = false;
  /// Names and values of all that the output depends on but the inputs: a change is an error.
  std::vector<std::pair<std::string, std::string>> resume_identity;
  /// How much work a killed process may lose.
  std::chrono::milliseconds checkpoint_interval{2000};

  /// Of what is known of documents to find duplicates; what exceeds it goes to temporary files
  /// beside the output.
  int64_t memory = int64_t{1} << 30;
  int samples = 0;  ///< Removed documents to show of each step.
  /// A file that the caller writes: none that is read or written here.
  std::optional<std::string> report;
  int workers = 1;
  size_t chunk_bytes = size_t{1} << 20;
};

/// A document that a step removed.
struct RemovedSample {
  std::string reason;
  std::string text;  ///< The begin of it, or of its line of JSON.
};

/// What a step did.
struct StepCounts {
  std::string name;                        ///< As the option that asks for it.
  int64_t documents = 0;                   ///< That came to it.
  int64_t bytes = 0;                       ///< Of their texts.
  int64_t removed = 0;                     ///< Documents.
  int64_t changed = 0;                     ///< Documents that stay with another text or as several.
  int64_t removed_bytes = 0;               ///< Of texts, those of documents that stay included.
  int64_t removed_pieces = 0;              ///< Paragraphs or lines.
  int64_t without_key = 0;                 ///< Documents that lack `duplicates_by`, and stay.
  std::map<std::string, int64_t> reasons;  ///< Documents removed, where there is more than one.
  std::vector<RemovedSample> samples;      ///< The first ones.
};

/// A file that was written.
struct OutputCounts {
  std::string path;  ///< The prefix of a dataset.
  int64_t documents = 0;
  int64_t text_bytes = 0;  ///< UTF-8 of their texts.
};

/// How many texts have how many bytes: less than 2 at [0], then less than twice as many at each.
using LengthCounts = std::array<int64_t, 48>;

/// Near duplicates of which one stayed.
struct DuplicateCluster {
  int64_t documents = 0;
  std::string kept;     ///< The begin of the line of the document that stayed; empty for stages.
  std::string removed;  ///< Of the first one that went.
};

struct CleanSummary {
  int64_t documents = 0;        ///< Read.
  int64_t input_bytes = 0;      ///< Read.
  int64_t text_bytes = 0;       ///< UTF-8 of the texts read.
  int64_t kept = 0;             ///< Documents written.
  int64_t kept_text_bytes = 0;  ///< UTF-8 of their texts.
  int64_t output_bytes = 0;     ///< Of the files; of datasets their tokens.
  int64_t skipped_lines = 0;
  LengthCounts lengths_read{}, lengths_kept{};
  std::map<std::string, int64_t> languages;  ///< Documents of each that came to that step.
  std::vector<StepCounts> steps;
  std::vector<OutputCounts> outputs;
  int64_t clusters = 0;                            ///< Of near duplicates.
  std::vector<DuplicateCluster> largest_clusters;  ///< Up to ten, the largest first.
  int64_t candidate_pairs = 0;  ///< Pairs of documents with a common bucket that were looked at.
  int64_t joined_pairs = 0;     ///< Of those; with `verify_jaccard` those that are similar.
  std::vector<std::string> skipped_examples;
  std::vector<std::string> warnings;
  bool was_finished = false;  ///< By an earlier process: this one only published the outputs.
};

/// Numbers from 0 up to 1 that depend on nothing but `value` and the seed, so that documents that
/// are added change nothing: the high and the low half of XXH3-128, divided by 2^64. A document
/// stays in a sample if the low one is less than its share, and is in the first split whose share,
/// with those before, exceeds the high one.
struct DrawnNumbers {
  double high = 0, low = 0;
};

DrawnNumbers drawn_numbers(std::string_view value, uint64_t seed);

/// Rules by which texts are repaired, with the names of ftfy 6.3.1, and "nfc", the normal form; all
/// of them together do what its defaults do.
std::span<const std::string_view> repair_rules();

/// The rules of published data sets, with their thresholds, in the order in which FineWeb uses
/// them: "gopher_repetition", "gopher_quality", "c4", which also removes lines, and "fineweb". The
/// same documents go, for the same reasons, as by the filters of datatrove 0.10 for English.
std::span<const std::string_view> quality_rules();

/// The files that options name beside the inputs: lists, models and test sets.
std::vector<std::string> named_files(const CleanOptions& options);

/// Documents in, documents out, in their order: every input of preprocess() to JSON lines or a
/// dataset. A JSON object is written as it was read, with all of its keys, unless a step changes
/// its text. A text that is a list of strings is a bad line.
///
/// The bytes depend neither on the number of workers nor on chunk_bytes. Memory is bounded by
/// workers x chunk, the longest line and `memory`, and a few bits for each document. The output
/// appears at the end; after an error nothing is left behind, unless the run can be resumed.
/// Errors: as read_texts().
Result<CleanSummary> clean(const CleanOptions& options, const ProgressCallback& progress);

}  // namespace meg::cleaning
