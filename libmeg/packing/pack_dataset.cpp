#include "libmeg/packing/pack_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/numpy/random_state.h"
#include "libmeg/packing/bin_packing.h"
#include "libmeg/packing/internal/conversation_reader.h"
#include "libmeg/packing/internal/packed_parquet.h"
#include "libmeg/packing/internal/token_spool.h"
#include "libmeg/preprocess/check_outputs.h"
#include "libmeg/preprocess/read_texts.h"

namespace meg::packing {
namespace {

using dataset::IndexedDatasetBuilder;
using dataset::loss_mask_prefix;

/// Longer sequences could not be counted in the lengths of an .idx.
constexpr int64_t kMostSequenceLength = int64_t{1} << 30;

/// Sequences between two looks at the progress callback.
constexpr size_t kSequencesAtOnce = 1024;

std::string parquet_path(const std::string& prefix) { return prefix + ".idx.parquet"; }

std::string packing_path(const std::string& prefix) { return prefix + "_packing.json"; }

Status check_options(const PackOptions& options) {
  if (options.output_prefix.empty()) {
    return Status(StatusCode::kInvalidArgument, "`output_prefix`: expected a path");
  }
  if (options.sequence_length < 1 || options.sequence_length > kMostSequenceLength) {
    return make_error(StatusCode::kInvalidArgument, "`seq_length`: expected 1 to {}, found {}",
                      kMostSequenceLength, options.sequence_length);
  }
  if (options.workers < 1 || options.max_documents.value_or(1) < 1) {
    return Status(StatusCode::kInvalidArgument, "`workers`, `max_documents`: expected at least 1");
  }
  return preprocess::check_outputs(options.inputs,
                                   packed_files(options.output_prefix, options.parquet));
}

/// Reads all of the input into the spool.
Result<preprocess::ReadTextsSummary> read_conversations(const PackOptions& options,
                                                        const chat::ChatTemplate& chat_template,
                                                        const tokenizer::Tokenizer& tokenizer,
                                                        DType dtype, TokenSpool& spool,
                                                        PackSummary& summary,
                                                        const ProgressCallback& progress) {
  std::vector<std::unique_ptr<ConversationReader>> readers;
  std::vector<preprocess::TextVisitor*> visitors;
  for (int i = 0; i < options.workers; ++i) {
    readers.push_back(std::make_unique<ConversationReader>(options, chat_template, tokenizer, dtype,
                                                           spool, summary));
    visitors.push_back(readers.back().get());
  }
  preprocess::ReadTextsOptions reading;
  reading.inputs = options.inputs;
  reading.input = options.input;
  reading.input.format = preprocess::InputFormat::kJson;
  reading.json_keys = {};
  reading.on_error = options.on_error;
  reading.chunk_bytes = options.chunk_bytes;
  reading.in_order = true;
  return preprocess::read_texts(reading, visitors, progress);
}

/// The outputs, written one packed sequence after another.
class PackWriter {
 public:
  static Result<PackWriter> create(const PackOptions& options, DType dtype) {
    IndexedDatasetBuilder::Options of_tokens;
    of_tokens.dtype = dtype;
    of_tokens.tokenizer = options.dataset_tokenizer;
    IndexedDatasetBuilder::Options of_masks;
    of_masks.dtype = DType::kUint8;
    MEG_ASSIGN_OR_RETURN(auto tokens,
                         IndexedDatasetBuilder::create(options.output_prefix, of_tokens));
    MEG_ASSIGN_OR_RETURN(auto masks, IndexedDatasetBuilder::create(
                                         loss_mask_prefix(options.output_prefix), of_masks));
    PackWriter writer(std::move(tokens), std::move(masks));
    MEG_ASSIGN_OR_RETURN(writer.packing_,
                         io::AtomicFile::create(packing_path(options.output_prefix)));
    if (!options.parquet) return writer;
    MEG_ASSIGN_OR_RETURN(writer.parquet_,
                         PackedParquetWriter::create(parquet_path(options.output_prefix), dtype));
    return writer;
  }

  Status add(std::span<const uint32_t> conversations, const TokenSpool& spool,
             PackSummary& summary) {
    for (const uint32_t conversation : conversations) {
      MEG_RETURN_IF_ERROR(spool.read(conversation, items_, mask_));
      MEG_RETURN_IF_ERROR(tokens_.add_item(items_));
      MEG_RETURN_IF_ERROR(masks_.add_item(mask_));
      if (parquet_) parquet_->add_sequence(items_, mask_);
      summary.tokens += std::ssize(mask_);
      summary.loss_tokens += std::count(mask_.begin() + 1, mask_.end(), std::byte{1});
    }
    MEG_RETURN_IF_ERROR(tokens_.end_document());
    MEG_RETURN_IF_ERROR(masks_.end_document());
    return parquet_ ? parquet_->end_row() : Status();
  }

  /// Publishes the masks and what describes the dataset before the dataset itself.
  Status finish(const nlohmann::ordered_json& packing) {
    const std::string text = packing.dump() + "\n";
    MEG_RETURN_IF_ERROR(packing_.write(std::as_bytes(std::span(text))));
    if (parquet_) MEG_RETURN_IF_ERROR(parquet_->finish());
    std::array<IndexedDatasetBuilder*, 2> builders = {&masks_, &tokens_};
    std::vector<io::AtomicFile*> beside = {&packing_};
    if (parquet_) beside.push_back(&parquet_->file());
    return IndexedDatasetBuilder::finish_all(builders, {}, beside);
  }

 private:
  PackWriter(IndexedDatasetBuilder tokens, IndexedDatasetBuilder masks)
      : tokens_(std::move(tokens)), masks_(std::move(masks)) {}

  IndexedDatasetBuilder tokens_;
  IndexedDatasetBuilder masks_;
  io::AtomicFile packing_;
  std::optional<PackedParquetWriter> parquet_;
  std::vector<std::byte> items_;
  std::vector<std::byte> mask_;
};

/// Megatron-Bridge's packing metadata.
nlohmann::ordered_json packing_metadata(const PackOptions& options, const PackSummary& summary) {
  const auto rounded = [](double value) { return std::round(value * 100) / 100; };
  const double per_sequence =
      static_cast<double>(summary.packed) / static_cast<double>(summary.sequences);
  return {{{"dataset_max_seqlen", summary.longest},
           {"max_samples_per_bin", summary.most_in_sequence},
           {"packing_factor", rounded(per_sequence)},
           {"packing_efficiency", rounded(summary.efficiency * 100)},
           {"pack_size", options.sequence_length},
           {"min_packed_seqlen", summary.shortest_sequence}}};
}

/// What the packing comes to. positions: that each conversation takes.
void summarize(const Bins& bins, std::span<const int32_t> positions, int64_t sequence_length,
               PackSummary& summary) {
  int64_t taken = 0;
  summary.sequences = std::ssize(bins.begins) - 1;
  summary.packed = std::ssize(positions);
  summary.shortest_sequence = sequence_length;
  for (size_t i = 0; i < bins.size(); ++i) {
    int64_t length = 0;
    for (const uint32_t item : bins.bin(i)) length += positions[item];
    taken += length;
    summary.shortest_sequence = std::min(summary.shortest_sequence, length);
    summary.most_in_sequence = std::max(summary.most_in_sequence, std::ssize(bins.bin(i)));
  }
  for (const int32_t length : positions) {
    summary.longest = std::max<int64_t>(summary.longest, length);
  }
  summary.efficiency = static_cast<double>(taken) / (static_cast<double>(summary.sequences) *
                                                     static_cast<double>(sequence_length));
}

Status write_packed(const PackOptions& options, DType dtype, const TokenSpool& spool,
                    PackSummary& summary, const ProgressCallback& progress) {
  std::vector<int32_t> positions = spool.lengths();
  for (int32_t& length : positions) --length;
  const bool keeps_order = options.algorithm == PackingAlgorithm::kNextFit;
  const Bins bins = keeps_order ? next_fit(positions, options.sequence_length)
                                : first_fit_decreasing(positions, options.sequence_length);
  summarize(bins, positions, options.sequence_length, summary);
  std::vector<int64_t> order(bins.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  // By first fit, the longest conversations come first: no order to train in.
  if (!keeps_order) numpy::RandomState(options.seed).shuffle(std::span(order));
  MEG_ASSIGN_OR_RETURN(PackWriter writer, PackWriter::create(options, dtype));
  for (size_t i = 0; i < order.size(); ++i) {
    MEG_RETURN_IF_ERROR(writer.add(bins.bin(static_cast<size_t>(order[i])), spool, summary));
    if (!progress || (i + 1) % kSequencesAtOnce != 0) continue;
    const Progress now{.documents = static_cast<int64_t>(i + 1),
                       .tokens = summary.tokens,
                       .total_documents = summary.sequences,
                       .counted = "sequences"};
    if (!progress(now)) return Status(StatusCode::kCancelled, "interrupted");
  }
  return writer.finish(packing_metadata(options, summary));
}

Result<PackSummary> pack(const PackOptions& options, const chat::ChatTemplate& chat_template,
                         const tokenizer::Tokenizer& tokenizer, const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(check_options(options));
  const DType dtype = tokenizer::optimal_dtype(tokenizer.vocab_size());
  MEG_ASSIGN_OR_RETURN(TokenSpool spool, TokenSpool::create(options.output_prefix, dtype));
  PackSummary summary;
  MEG_ASSIGN_OR_RETURN(
      preprocess::ReadTextsSummary reading,
      read_conversations(options, chat_template, tokenizer, dtype, spool, summary, progress));
  summary.input_bytes = reading.input_bytes;
  summary.skipped_lines = reading.skipped_lines;
  summary.skipped_examples = std::move(reading.skipped_examples);
  summary.warnings = std::move(reading.warnings);
  if (spool.lengths().empty()) {
    std::string skipped;
    if (summary.skipped_lines > 0) {
      skipped = fmt::format("; invalid lines skipped: {}, the first: {}", summary.skipped_lines,
                            summary.skipped_examples.front());
    }
    return make_error(StatusCode::kCorruption,
                      "{}: expected a conversation to learn from, found {} of which none has a "
                      "token to learn (empty: {}, without an answer: {}, without a token to learn "
                      "in {} tokens: {}, too long: {}){}",
                      options.inputs.front(), summary.conversations, summary.empty,
                      summary.without_assistant, options.sequence_length, summary.without_loss,
                      summary.too_long, skipped);
  }
  MEG_RETURN_IF_ERROR(write_packed(options, dtype, spool, summary, progress));
  std::error_code ignored;
  const std::string parquet = parquet_path(options.output_prefix);
  if (!options.parquet && std::filesystem::exists(parquet, ignored)) {
    summary.warnings.push_back(parquet + ": of an older dataset, and not of this one");
  }
  return summary;
}

}  // namespace

std::vector<std::string> packed_files(const std::string& prefix, bool parquet) {
  const std::string masks = loss_mask_prefix(prefix);
  std::vector<std::string> files = {prefix + ".bin", prefix + ".idx", masks + ".bin",
                                    masks + ".idx", packing_path(prefix)};
  if (parquet) files.push_back(parquet_path(prefix));
  return files;
}

Result<PackSummary> pack_dataset(const PackOptions& options,
                                 const chat::ChatTemplate& chat_template,
                                 const tokenizer::Tokenizer& tokenizer,
                                 const ProgressCallback& progress) {
  try {
    return pack(options, chat_template, tokenizer, progress);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory while packing conversations");
  }
}

}  // namespace meg::packing
