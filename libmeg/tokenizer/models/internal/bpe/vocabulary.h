#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace simdjson::dom {
class element;
}

namespace meg::tokenizer {

/// A vocab.json: one JSON object, token text -> id. Token text is kept as the file writes it.
class Vocabulary {
 public:
  struct Entry {
    std::string_view text;  ///< valid as long as the Vocabulary lives
    int32_t id;
  };

  /// json: the file's content, optionally with a byte order mark; name: the file's, for errors.
  /// A duplicate key keeps its last id, as in Python. kCorruption if this is not an object with ids
  /// 0 ... 2^31-1, or has no entry.
  static Result<Vocabulary> parse(std::string_view json, const std::string& name);

  /// The same of a value in a file; name: that of its place.
  static Result<Vocabulary> read(const simdjson::dom::element& json, const std::string& name);

  /// A vocabulary of distinct texts with ids from 0 on.
  static Vocabulary of(const std::vector<Entry>& entries);

  /// Every text once, in order of first appearance.
  const std::vector<Entry>& entries() const { return entries_; }

  /// Index into entries(), or -1.
  int32_t find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t tag;   // upper half of the text's hash
    int32_t entry;  // -1 where the slot is free
  };

  void reserve(size_t entries, size_t text_bytes);
  void insert(std::string_view text, int32_t id);
  size_t slot_of(std::string_view text, uint64_t hash) const;

  std::vector<char> texts_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing, a power of two
};

}  // namespace meg::tokenizer
