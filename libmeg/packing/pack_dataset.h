#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/chat/chat_template.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/packing/conversation_encoder.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::packing {

/// What becomes of a conversation that is longer than a sequence.
enum class Truncation {
  kRight,  ///< Its end is cut off, as Megatron's SFTDataset does.
  kLeft,   ///< Its beginning is.
  kDrop,   ///< It is left out.
};

enum class PackingAlgorithm {
  kFirstFitDecreasing,  ///< Fewest sequences; then shuffled.
  kNextFit,             ///< Conversations stay in the order of the input.
};

struct PackOptions {
  std::vector<std::string> inputs;       ///< As PreprocessOptions::inputs.
  preprocess::InputOptions input;        ///< Its format is not looked at: JSON.
  std::optional<int64_t> max_documents;  ///< Stops after this many conversations; at least 1.
  preprocess::OnError on_error = preprocess::OnError::kFail;
  std::string output_prefix;
  /// Tokens that a model sees at once, at least 1. A conversation of n tokens takes n - 1 of them:
  /// nothing follows its last one.
  int64_t sequence_length = 0;
  LossOn loss_on = LossOn::kAssistant;
  Truncation truncation = Truncation::kRight;
  PackingAlgorithm algorithm = PackingAlgorithm::kFirstFitDecreasing;
  uint32_t seed = 1234;  ///< Of the order of sequences packed by first fit.
  /// Also writes PREFIX.idx.parquet, which Megatron-Bridge trains on.
  bool parquet = false;
  std::optional<dataset::DatasetTokenizer> dataset_tokenizer;  ///< As in PreprocessOptions.
  int workers = 1;                                             ///< Threads that tokenize.
  size_t chunk_bytes = size_t{1} << 20;  ///< Input bytes that a worker processes at a time.
};

struct PackSummary {
  int64_t conversations = 0;  ///< Read, without skipped lines.
  // Left out.
  int64_t empty = 0;              ///< Without messages.
  int64_t without_assistant = 0;  ///< No message of an assistant that counts.
  int64_t without_loss = 0;       ///< No token to learn, also once cut off.
  int64_t too_long = 0;           ///< Truncation::kDrop.

  int64_t truncated = 0;
  int64_t packed = 0;       ///< Conversations in the dataset.
  int64_t tokens = 0;       ///< Of them.
  int64_t loss_tokens = 0;  ///< Tokens that are learned.
  int64_t sequences = 0;    ///< Packed ones.
  int64_t longest = 0;      ///< Positions that the longest conversation takes.
  int64_t shortest_sequence = 0;
  int64_t most_in_sequence = 0;  ///< Conversations.
  double efficiency = 0;         ///< Positions that conversations take, of all; 0 to 1.
  int64_t input_bytes = 0;
  int64_t skipped_lines = 0;
  std::vector<std::string> skipped_examples;  ///< Messages of the first skipped lines.
  std::vector<std::string> warnings;
};

/// The paths of all files that pack_dataset() writes.
std::vector<std::string> packed_files(const std::string& prefix, bool parquet);

/// Conversations -> PREFIX.{bin,idx}, a document for each packed sequence and in it a sequence for
/// each conversation; PREFIX_loss_mask.{bin,idx}, uint8, in which 1 marks tokens that are learned;
/// and PREFIX_packing.json, the lengths as Megatron-Bridge stores them. All appear together. The
/// bytes do not depend on the number of workers. Memory is bounded by workers x chunk, the longest
/// line, and some 40 bytes for each conversation; tokens wait in a file beside the output.
/// Errors: kInvalidArgument for options, kCorruption for lines (`FILE: line L, byte B: ...`) and
/// where no conversation is left, kCancelled, those of reading and writing.
Result<PackSummary> pack_dataset(const PackOptions& options,
                                 const chat::ChatTemplate& chat_template,
                                 const tokenizer::Tokenizer& tokenizer,
                                 const ProgressCallback& progress);

}  // namespace meg::packing
