#pragma once

#include <cstddef>
#include <cstdint>
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

/// A file of lines or a dataset, which appears when all are committed.
class Output {
 public:
  /// path: of the file, or what stands before `_KEY_document` in the dataset's name.
  static Result<Output> create(const CleanOptions& options, const std::string& path);

  /// Of the file, or the prefix of the dataset.
  const std::string& path() const { return path_; }

  Status write(const OutputBlock& block);

  /// sources: the names that the numbers in places mean.
  static Status commit_all(std::span<Output> outputs, const std::vector<std::string>& sources);

 private:
  std::string path_;
  io::AtomicFile file_;
  std::optional<dataset::IndexedDatasetBuilder> builder_;
  std::optional<dataset::ProvenanceWriter> provenance_;
};

/// The files that an output at `path` consists of.
std::vector<std::string> output_files(const CleanOptions& options, const std::string& path);

/// Whether an output has the texts alone, one a line.
bool is_txt(const CleanOptions& options);

}  // namespace meg::cleaning
