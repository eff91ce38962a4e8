#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/models/internal/bpe/merge_list.h"
#include "libmeg/tokenizer/models/internal/bpe/vocabulary.h"

namespace meg::tokenizer {

/// The byte that `<0x41>` stands for; empty for any other token.
std::optional<uint8_t> fallback_byte(std::string_view token);

/// Joins a vocabulary and a list of merges into a BpeModel. Used once: add_merges, then build.
class BpeModelBuilder {
 public:
  /// vocabulary and names are borrowed; the names are for messages.
  BpeModelBuilder(const Vocabulary& vocabulary, const std::string& vocab_name,
                  const std::string& merges_name, const BpeRules& rules = {});

  /// kCorruption if a piece or the result of a merge is not in the vocabulary.
  Status add_merges(const MergeList& list);

  BpeModel build() &&;

 private:
  static constexpr int32_t kNone = -1;

  bool append_bytes(std::string_view token, std::string& bytes) const;
  void add_tokens();
  void add_characters();
  void add_character(int32_t entry, std::string_view prefix, std::string_view suffix);
  void warn_of_missing_bytes();
  void sort_tokens();
  Status add_merge(const MergeList::Pair& pair);
  void replace_earlier(const BpeModel::Merge& merge);
  Result<int32_t> entry_of(std::string_view text, std::string_view what,
                           const MergeList::Pair& pair) const;
  Result<int32_t> result_of(const MergeList::Pair& pair);
  int32_t piece_of(int32_t entry);
  bool looks_like_merge(std::string_view line);

  const Vocabulary& vocabulary_;
  const std::string& vocab_name_;
  const std::string& merges_name_;
  const BpeRules rules_;
  std::string_view merges_place_ = "line";
  BpeModel model_;
  std::vector<BpeModel::Span> entry_spans_;  // by entry
  std::vector<bool> in_alphabet_;            // by entry
  std::vector<int32_t> entry_pieces_;        // by entry
  std::vector<int32_t> last_merge_to_;       // by piece: the last merge that gives it
  std::vector<int32_t> earlier_merge_;  // by merge: the one before it that gives the same piece
  std::string joined_;
  size_t last_result_ = 0;  // entry
  int64_t replaced_ = 0;
};

}  // namespace meg::tokenizer
