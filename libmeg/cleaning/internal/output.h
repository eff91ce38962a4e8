#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/internal/text_pieces.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/provenance_writer.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::cleaning {

/// Documents on their way to one of the outputs.
struct OutputBlock {
  size_t output = 0;                           ///< Its number.
  std::string bytes;                           ///< Their lines; once packed, what is written.
  std::vector<dataset::DocumentPlace> places;  ///< Of each document, where they are recorded.
  /// Of a dataset, once packed: the tokens of every sequence, the sequences (1 or 0) of every
  /// document.
  std::vector<int32_t> sequence_lengths, document_sequence_counts;
};

/// Brings blocks into the form in which they are written: compressed, as a gzip member or zstd
/// frame of their own, or tokenized. Belongs to one thread.
class BlockPacker {
 public:
  explicit BlockPacker(const CleanOptions& options);

  Status pack(OutputBlock& block);

 private:
  Status tokenize(OutputBlock& block);

  const CleanOptions& options_;
  LineEditor editor_;
  std::unique_ptr<tokenizer::TokenEncoder> encoder_;  // of datasets
  tokenizer::TokenBuffer tokens_;
};

/// How much an output has taken.
struct OutputMark {
  int64_t bytes = 0;                                 ///< Of a file.
  int64_t sequences = 0, documents = 0, tokens = 0;  ///< Of a dataset.
};

/// A file of lines or a dataset, which appears when all are committed.
class Output {
 public:
  /// path: of the file, or what stands before `_KEY_document` in the dataset's name. resume_at: if
  /// set, where another process's output was at this mark(); kCorruption if it has less.
  static Result<Output> create(const CleanOptions& options, const std::string& path,
                               const std::optional<OutputMark>& resume_at);

  /// Of the file, or the prefix of the dataset.
  const std::string& path() const { return path_; }

  Status write(const OutputBlock& block);

  /// What was written, of an output that can be resumed.
  Result<OutputMark> mark();

  /// Flushes to the device; from any thread.
  Status sync();

  /// sources: the names that the numbers in places mean. before_publishing: if set, called once all
  /// is on the device.
  static Status commit_all(std::span<Output> outputs, const std::vector<std::string>& sources,
                           const std::function<Status()>& before_publishing);

  /// Completes a commit_all() of outputs that can be resumed whose process was killed after
  /// before_publishing(). paths, marks: of all outputs.
  static Status publish_all(const CleanOptions& options, std::span<const std::string> paths,
                            std::span<const OutputMark> marks);

 private:
  std::string path_;
  io::AtomicFile file_;
  std::optional<int64_t> bytes_;  // of a file that can be resumed
  std::optional<dataset::IndexedDatasetBuilder> builder_;
  std::optional<dataset::ProvenanceWriter> provenance_;
};

/// The path of each split, or that of the output.
std::vector<std::string> output_paths(const CleanOptions& options);

/// What stands in `output` for the name of a split.
inline constexpr std::string_view kSplitPlace = "{split}";

/// The files that an output at `path` consists of.
std::vector<std::string> output_files(const CleanOptions& options, const std::string& path);

/// Whether an output has the texts alone, one a line.
bool is_txt(const CleanOptions& options);

}  // namespace meg::cleaning
