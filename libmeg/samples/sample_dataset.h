#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/gpt_sample.h"

namespace meg::samples {

/// A part of one sequence inside a sample.
struct SamplePart {
  int64_t sequence = 0;  ///< Of the dataset.
  int64_t offset = 0;    ///< Tokens into the sequence.
  int64_t length = 0;    ///< Tokens.
};

/// Where a sample's tokens come from.
struct SampleSource {
  int64_t dataset = 0;  ///< Which of dataset_prefixes().
  std::vector<SamplePart> parts;
};

/// A numbered set of samples of equal length. Safe for any number of threads.
class SampleDataset {
 public:
  virtual ~SampleDataset() = default;

  /// Number of samples.
  virtual int64_t size() const = 0;

  /// Tokens of every sample: the sequence length, and one more where the extra token is on.
  virtual int64_t text_length() const = 0;

  /// Writes the text of a sample into out (text_length() tokens); what a short last sample lacks is
  /// `pad`. kOutOfRange unless 0 <= sample < size(); kCorruption where an index points outside its
  /// data.
  virtual Status text(int64_t sample, int64_t pad, std::span<int64_t> out) const = 0;

  /// Fills the fields of a training sample; with options.reset_attention_mask, appends the lengths
  /// of its documents. The default makes it of text(). text: room for text_length() tokens.
  virtual Status fill(int64_t sample, const GptSampleOptions& options, std::span<int64_t> text,
                      const GptSampleFields& fields, std::vector<int64_t>& document_lengths) const;

  /// The parts that text() consists of, including those of zero length.
  virtual Result<SampleSource> source(int64_t sample) const = 0;

  /// Every sample that holds tokens of the sequences `range` of dataset number `dataset`, in
  /// order. The default asks each sample for its source().
  virtual Result<std::vector<int64_t>> samples_with(int64_t dataset,
                                                    dataset::SequenceRange range) const;

  /// The datasets that samples come from, in the order of --data-path.
  virtual std::vector<std::string> prefixes() const = 0;
};

}  // namespace meg::samples
