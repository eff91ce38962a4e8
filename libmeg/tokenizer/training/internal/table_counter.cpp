#include "libmeg/tokenizer/training/internal/table_counter.h"

// Counts the words of texts. Short words are hashed in batches: their place in the table is
// prefetched when the word is found and used when the batch is full, as a table of millions of
// words is larger than the caches.

namespace meg::tokenizer {

TableCounter::TableCounter(const PreTokenizer& pre_tokenizer, size_t memory_limit,
                           SpilledRuns& spilled, InstructionSet set)
    : pre_tokenizer_(pre_tokenizer),
      memory_limit_(memory_limit),
      spilled_(spilled),
      scan_(pre_tokenizer.words.empty() ? nullptr
                                        : find_known_pattern(pre_tokenizer.words)->scanner(set)) {}

Status TableCounter::count(std::string_view text) {
  if (text.empty()) return status_;
  MEG_RETURN_IF_ERROR(split(text, 0));
  add_batch();
  return status_;
}

Status TableCounter::split(std::string_view text, size_t step) {
  // Steps in front of the word pattern (Split, Digits ...) cut the text further and further.
  if (step < pre_tokenizer_.steps.size()) {
    return split_text(pre_tokenizer_.steps[step], text,
                      [&](std::string_view part) { return split(part, step + 1); });
  }
  if (scan_ != nullptr) {
    scan_words(text);
  } else {
    add(text);
  }
  return {};
}

void TableCounter::scan_words(std::string_view text) {
  fast::WordScan scan(text);
  const char* word = text.data();
  while (scan.position < scan.end) {
    const char* const base = scan.position;
    const size_t count = scan_(scan, starts_.data());
    for (size_t i = 0; i < count; ++i) {
      const char* const next = base + starts_[i];
      add({word, next});
      word = next;
    }
  }
  add({word, scan.end});
}

/// kLongWord bytes from the word's begin must be readable. Short words wait in the batch.
void TableCounter::add(std::string_view word) {
  if (word.size() < 2) return;  // It has no pair.
  ++words_;
  if (word.size() >= kLongWord) {
    table_.reserve(1);
    table_.add_long(word);
    return spill_if_full();
  }
  const WordTable::ShortKey key(word.data(), word.size());
  const uint64_t hash = key.hash();
  __builtin_prefetch(table_.first_place(hash));
  batch_[batched_++] = {key, hash};
  if (batched_ == kBatch) add_batch();
}

void TableCounter::add_batch() {
  table_.reserve(batched_);
  for (size_t i = 0; i < batched_; ++i) table_.add_short(batch_[i].key, batch_[i].hash);
  batched_ = 0;
  spill_if_full();
}

void TableCounter::spill_if_full() {
  // Errors of spilling are kept until count() can return them.
  if (table_.memory() <= memory_limit_ || !status_.ok()) return;
  status_ = spilled_.write(*table_.take_run());
}

}  // namespace meg::tokenizer
