#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"

namespace meg::dataset {

struct MergeOptions {
  /// dtype of the output, which must be able to hold every value of the inputs' dtypes (default:
  /// all inputs must have the same). MMIDIDX only.
  std::optional<DType> dtype = {};
  /// Whether the sequences have modes; nullopt: determined from the files' sizes.
  std::optional<bool> multimodal = {};
  /// A .bin that is longer than the lengths imply belongs to a view, even if it is longer by one
  /// item per document, like 6ef5bdc's wrong ones.
  bool take_short_lengths_as_view = false;
  ProgressCallback progress = {};  ///< Bytes of .bin; may be empty.
};

struct MergeSummary {
  int64_t datasets = 0;
  int64_t documents = 0;
  int64_t sequences = 0;
  int64_t items = 0;               ///< tokens
  int64_t bytes = 0;               ///< of all .bin
  std::vector<std::string> notes;  ///< Which inputs are views, or of another tokenizer.
};

/// Writes the documents of several datasets, in order, as one. Inputs: MMIDIDX, where a view
/// contributes the sequences that its pointers name, or all TNTIDX, of any shape. Both files appear
/// at the end, by rename, together with PREFIX.libmeg if all inputs name the same tokenizer. Memory
/// does not grow with the datasets. All shards of a preprocess_data --shard run must be present
/// (kNotFound), each once. Errors: kInvalidArgument for different dtypes or formats, for shards of
/// different runs, where both files of a dataset are given in place of its prefix, and where the
/// output is one of the inputs, kCorruption, kCancelled. Mirrors Megatron-LM
/// tools/merge_datasets.py.
Result<MergeSummary> merge_datasets(const std::vector<std::string>& prefixes,
                                    const std::string& output_prefix, const MergeOptions& options);

/// Whether an input is a folder of datasets and not a prefix: what ends in a slash, or a folder of
/// this machine without a dataset of the same name beside it.
bool is_dataset_folder(const std::string& input);

/// The prefixes of the pairs in such a folder, in Megatron's order: sorted by their bytes.
/// kNotFound if a file has no counterpart or there are no files. Files beside a pair with its name
/// and a different extension are ignored.
Result<std::vector<std::string>> dataset_prefixes_in(const std::string& folder);

/// Selects, from the `prefixes` in `folder`, the datasets NAME_KEY_document or NAME_KEY_sentence of
/// a JSON key. kInvalidArgument if there are none, or both kinds, which are the same texts twice.
Result<std::vector<std::string>> dataset_prefixes_of_key(const std::string& folder,
                                                         const std::vector<std::string>& prefixes,
                                                         const std::string& key);

}  // namespace meg::dataset
