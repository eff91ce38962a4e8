#pragma once

#include <array>
#include <string_view>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"
#include "libmeg/tokenizer/training/bpe_trainer.h"
#include "libmeg/tokenizer/training/internal/word_runs.h"
#include "libmeg/tokenizer/training/internal/word_table.h"

namespace meg::tokenizer {

/// Counts the words that a pre-tokenizer finds, in a table that is written to a file when it
/// exceeds its limit.
class TableCounter : public WordCounter {
 public:
  /// pre_tokenizer and spilled must outlive the counter. memory_limit: bytes.
  TableCounter(const PreTokenizer& pre_tokenizer, size_t memory_limit, SpilledRuns& spilled,
               InstructionSet set = best_instruction_set());

  Status count(std::string_view text) override;

  /// Words counted, of two bytes and more.
  int64_t words() const { return words_; }

  /// What is left in the table; called once.
  std::unique_ptr<WordRun> take_run() { return table_.take_run(); }

 private:
  /// Words whose slots are prefetched together, so that the waits for memory overlap.
  static constexpr size_t kBatch = 256;

  Status split(std::string_view text, size_t step);
  void scan_words(std::string_view text);
  void add(std::string_view word);
  void add_batch();
  void spill_if_full();

  const PreTokenizer& pre_tokenizer_;
  const size_t memory_limit_;
  SpilledRuns& spilled_;
  const fast::WordScanner scan_;
  WordTable table_;
  int64_t words_ = 0;
  Status status_;  // of the spill file

  struct Asked {
    WordTable::ShortKey key;
    uint64_t hash;
  };

  std::array<uint32_t, fast::kScanRoom> starts_;
  std::array<Asked, kBatch> batch_;
  size_t batched_ = 0;
};

}  // namespace meg::tokenizer
