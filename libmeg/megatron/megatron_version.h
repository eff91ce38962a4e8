#pragma once

#include <span>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::megatron {

/// How a split's range of sequences follows from the weights of --split.
enum class SplitArithmetic {
  kLegacy,       ///< Each split's size is rounded; what is too much is taken off every end.
  kLegacyRegex,  ///< The same; weights are found as runs of digits and dots.
  kCumulative,   ///< The running sums of the weights are rounded; weights found in the same way.
};

/// Names and descriptions of index caches.
enum class IndexCacheForm {
  kBesideData,   ///< v2.x: PREFIX_train_indexmap_..., no description
  kLegacy,       ///< <md5>.dsc, lines of text
  kPathPrefix,   ///< Core: JSON with path_prefix; `split` before random_seed
  kSplitMatrix,  ///< January 2024: path_prefix, then split and split_matrix at the end
  kDatasetPath,  ///< dataset_path, split_matrix and the tokenizer
};

/// Integers of the sample index.
enum class SampleIndexType { kInt32, kInt64, kAsNeeded };

/// How many samples are requested from the datasets of a blend, and the blend's size.
enum class BlendMargin {
  kSumOfBuilt,  ///< ceil(q w 1.005) each; the size is what the datasets then have
  kSumOfAsked,  ///< ceil(q w 1.005) each; the size is their sum
  kOnTop,       ///< ceil(ceil(q w) 1.005) each; the size is the sum of ceil(q w)
};

/// Steps of a run with --rampup-batch-size that is given in samples.
enum class RampupSteps {
  kWhole,    ///< The ramp-up counts to its end although the samples end before.
  kLimited,  ///< It ends with the samples.
  kNone,     ///< --rampup-batch-size is read and has no effect.
};

/// What a GPTDataset does with the tokenizer's padding token where it is in the data.
enum class DatasetPad {
  kNone,         ///< Nothing.
  kMasked,       ///< Labels that are it have no loss, and it is read as token 0.
  kUnambiguous,  ///< The same, but not of a token that is the end of a document too.
};

/// --mock-data
enum class MockData {
  kNone,
  kPadded,   ///< A run of ones per sample, drawn from (split, number), then padding
  kLengths,  ///< Documents 1, 2, 3, ... of lengths drawn once
  kModulo,   ///< The same, modulo the vocabulary size
};

/// The form of the log lines about saving and loading checkpoints; each form includes the previous
/// one.
enum class CheckpointLines {
  kIteration,  ///< "saving checkpoint at iteration ..."; `release` is loaded "at iteration 0"
  kRelease,    ///< " loading release checkpoint from ..."
  kFormat,     ///< "in torch format" while saving; "[ t 0, p 0 ]" once loaded
  kFrom,       ///< "successfully saved checkpoint from iteration", before: "at iteration"
  kRankOfAll,  ///< "[ t 1/2, p 1/1 ]", once saved too
  kDated,      ///< Of saving: "[2026-02-01 10:00:00.123456] ..."
  kRemat,      ///< "[ t 1/2, gtp_remat 1/1, p 1/1 ]"
};

/// A revision of Megatron-LM and the behaviours in which revisions differ.
/// docs/megatron_versions.md lists the table.
struct MegatronVersion {
  std::string_view name;  ///< Such as "core_v0.9.0".

  /// preprocess_data drops documents without tokens; later revisions keep them, empty.
  bool skip_empty_documents;

  /// preprocess_data --split-sentences splits a text as a whole; later revisions cut it into pieces
  /// of 1,000,000 characters first.
  bool sentences_of_whole_texts;

  /// GPT2BPETokenizer uses Hugging Face and converts the text of a special token, such as
  /// <|endoftext|>, to its id. Applied only if the user names a revision.
  bool gpt2_special_tokens_in_text;

  SplitArithmetic split_arithmetic;
  IndexCacheForm index_cache_form;
  bool split_in_cache_name;  ///< <md5>-GPTDataset-train-... instead of <md5>-GPTDataset-...
  SampleIndexType sample_index_type;
  BlendMargin blend_margin;

  /// --data-path may be prefixes without weights, and sample counts may be open (one epoch).
  bool open_sample_counts;

  /// A blend's description ends with renormalize_blend_weights.
  bool renormalize_in_description;

  DatasetPad dataset_pad;

  MockData mock_data;

  /// NullTokenizer has one token more than --vocab-size, the end-of-document token.
  bool null_tokenizer_adds_eod;

  /// NullTokenizer has a name in the descriptions of index caches.
  bool null_tokenizer_identifies;

  bool hugging_face_tokenizer;  ///< There is a HuggingFaceTokenizer.

  /// HuggingFaceTokenizer adds the tokens of the post-processor, such as <s>, by default. This is
  /// for the classes of megatron.core.tokenizers; the older ones always add them.
  bool hugging_face_special_tokens;

  /// The N of core_v0.N if tokenizers are those of megatron.core.tokenizers, whose arguments
  /// changed between releases; 0 for the older classes.
  int core_tokenizers;

  /// --iterations-to-skip counts from 1; before, from 0. Applied only if the user names a revision.
  bool skipped_iterations_from_one;

  RampupSteps rampup_steps;
  bool
      skip_train_evaluates_once;  ///< --skip-train: validation samples are those of one evaluation.

  /// Iteration lines begin with the time and show six digits of the learning rate.
  bool dated_log_lines;

  /// The printed loss is the mean over all tokens of a step, not over its micro-batches.
  bool losses_over_tokens;

  /// Zeros in the gradients are counted and logged without --log-num-zeros-in-grad, too.
  bool always_counts_zeros;

  /// The memory estimate has activations of any run, not only with sequence parallelism and
  /// selective recomputation.
  bool estimates_any_activations;

  CheckpointLines checkpoint_lines;
};

/// Every revision that libmeg knows, oldest first.
std::span<const MegatronVersion> megatron_versions();

/// The newest one, which programs follow by default.
const MegatronVersion& newest_megatron_version();

/// The row of a revision's name: `v2.6`, `6ef5bdc` (also longer forms of the hash), `core_v0.9.0`,
/// `core_r0.9.0`, `0.9.0`, `0.9`. A tag between two rows (0.9.2, 0.15.0rc3, v3.0) means the lower
/// one. kInvalidArgument for anything else, with the accepted names.
Result<MegatronVersion> parse_megatron_version(std::string_view name);

}  // namespace meg::megatron
