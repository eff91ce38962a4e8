#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/exact_duplicates.h"
#include "libmeg/cleaning/duplicates/near_duplicates.h"
#include "libmeg/cleaning/internal/clean_journal.h"
#include "libmeg/cleaning/internal/output.h"
#include "libmeg/cleaning/internal/signature_file.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {

/// What stands before a document's line in the file of those that are held.
struct HeldHeader {
  uint64_t size;  ///< of the line
  int64_t text_bytes;
  uint64_t split;   ///< its number
  uint64_t is_cut;  ///< 1 where pieces of the text were removed
  dataset::DocumentPlace place;
};

/// The place in LengthCounts of a text of this many bytes.
inline size_t length_class(int64_t bytes) {
  const auto width = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(bytes)));
  return std::min(std::max<size_t>(width, 1), LengthCounts().size()) - 1;
}

/// What the parts of one run share. Only the part that is settled or written uses it.
struct SharedState {
  std::vector<Output> outputs;       ///< One a split; without splits one.
  std::vector<std::string> sources;  ///< The inputs' names.
  std::optional<ExactDuplicates> exact;
  std::optional<NearDuplicates> near;
  std::optional<SignatureWriter> signatures;  ///< In place of `near`, for another process.
  std::optional<ShingleWriter> shingles;      ///< Beside `signatures`, to verify pairs.
  std::optional<std::vector<bool>> removed;   ///< Of held documents, by another process.
  io::AtomicFile held_file;  ///< Documents of which it is decided at the end whether they stay.
  std::function<Result<size_t>(int64_t, std::span<std::byte>)> read_held;  ///< At an offset.
  int64_t held = 0;                                                        ///< documents
  int64_t held_bytes = 0;                                                  ///< written
  int64_t held_pieces =
      0;  ///< paragraphs or lines of held documents, except those of whitespace alone
  int64_t output_bytes = 0;               ///< written
  CleanSummary summary;                   ///< Except for what is known at the end alone.
  std::unique_ptr<CleanJournal> journal;  ///< Of a run that can be resumed.
  StepCounts* exact_counts = nullptr;
  StepCounts* near_counts = nullptr;

  /// Counts a document that is removed. shown: its begin is kept where there is room for samples.
  void count_removed(StepCounts& counts, int64_t text_bytes, std::string_view shown,
                     const CleanOptions& options) const {
    ++counts.removed;
    counts.removed_bytes += text_bytes;
    add_sample(counts, "", shown, options);
  }

  static void add_sample(StepCounts& counts, std::string_view reason, std::string_view text,
                         const CleanOptions& options) {
    if (std::ssize(counts.samples) >= options.samples) return;
    counts.samples.push_back({std::string(reason), shown_begin(text)});
  }

  /// What is shown of a document in reports.
  static std::string shown_begin(std::string_view text) {
    constexpr size_t kShown = 300;
    return std::string(text.substr(0, text::size_of_whole_characters(text.substr(0, kShown))));
  }

  /// Counts a document that is written.
  void count_kept(uint64_t split, int64_t text_bytes) {
    ++summary.kept;
    summary.kept_text_bytes += text_bytes;
    ++summary.lengths_kept[length_class(text_bytes)];
    ++summary.outputs[split].documents;
    summary.outputs[split].text_bytes += text_bytes;
  }

  Status write(const OutputBlock& block) {
    output_bytes += std::ssize(block.bytes);
    return outputs[block.output].write(block);
  }

  Status write_held(std::string_view documents) {
    MEG_RETURN_IF_ERROR(held_file.write_at(held_bytes, std::as_bytes(std::span(documents))));
    held_bytes += std::ssize(documents);
    return {};
  }

  /// ExactDuplicates::add().
  Result<ExactDuplicates::Answer> add_digest(int64_t number, const TextDigest& digest);

  /// What was decided so far. After it write_checkpoint(), when the part that was settled is
  /// written, and save_checkpoint(), from any thread.
  Result<CleanCheckpoint> begin_checkpoint() const;
  Status write_checkpoint(const preprocess::ReadPosition& end, CleanCheckpoint& checkpoint);
  Status save_checkpoint(const CleanCheckpoint& checkpoint);
};

}  // namespace meg::cleaning
