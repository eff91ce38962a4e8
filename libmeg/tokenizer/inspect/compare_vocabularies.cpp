#include "libmeg/tokenizer/inspect/compare_vocabularies.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

// Compares by the bytes of tokens and not by their texts in files, in which one token is spelled in
// several ways.

namespace meg::tokenizer {
namespace {

using Ids = std::unordered_map<std::string_view, int32_t>;

int32_t last_id(const Tokenizer& tokenizer) {
  int32_t last = tokenizer.max_id();
  for (const SpecialToken& token : tokenizer.special_tokens()) last = std::max(last, token.id);
  return last;
}

Ids ids_of(const Tokenizer& tokenizer) {
  Ids ids;
  for (int32_t id = 0; id <= last_id(tokenizer); ++id) {
    const std::optional<std::string_view> bytes = tokenizer.token_bytes(id);
    // Control tokens have no bytes. Of several tokens with the same bytes the lowest id stands for
    // all.
    if (bytes && !bytes->empty()) ids.try_emplace(*bytes, id);
  }
  return ids;
}

void sort_by_id(std::vector<TokenDifference>& differences) {
  std::sort(differences.begin(), differences.end(), [](const auto& a, const auto& b) {
    return std::pair(a.id, a.other_id) < std::pair(b.id, b.other_id);
  });
}

}  // namespace

VocabularyDifferences compare_vocabularies(const Tokenizer& here, const Tokenizer& there) {
  const Ids here_ids = ids_of(here);
  const Ids there_ids = ids_of(there);
  VocabularyDifferences differences;
  for (const auto& [bytes, id] : here_ids) {
    const auto found = there_ids.find(bytes);
    if (found == there_ids.end()) {
      differences.only_here.push_back({std::string(bytes), id, -1});
    } else if (found->second != id) {
      differences.moved.push_back({std::string(bytes), id, found->second});
    } else {
      ++differences.equal;
    }
  }
  for (const auto& [bytes, id] : there_ids) {
    if (!here_ids.contains(bytes)) differences.only_there.push_back({std::string(bytes), -1, id});
  }
  sort_by_id(differences.only_here);
  sort_by_id(differences.only_there);
  sort_by_id(differences.moved);
  return differences;
}

}  // namespace meg::tokenizer
