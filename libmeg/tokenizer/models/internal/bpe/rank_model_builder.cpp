#include "libmeg/tokenizer/models/internal/bpe/rank_model_builder.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "libmeg/text/printable.h"

namespace meg::tokenizer {
namespace {

using Pieces = std::unordered_map<std::string_view, int32_t>;

/// Numbers the tokens: single bytes by value, the others after them.
Result<Pieces> number_pieces(const std::vector<std::string>& tokens, const std::string& name) {
  Pieces pieces;
  pieces.reserve(tokens.size());
  int32_t next = 256;
  int bytes = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_byte = tokens[i].size() == 1;
    const int32_t piece = is_byte ? static_cast<uint8_t>(tokens[i][0]) : next++;
    bytes += is_byte ? 1 : 0;
    if (!tokens[i].empty() && pieces.emplace(tokens[i], piece).second) continue;
    return make_error(StatusCode::kCorruption, "{}: token {}: expected {}, found {}", name, i,
                      tokens[i].empty() ? "at least one byte" : "one that did not occur before",
                      text::printable(tokens[i]));
  }
  // tiktoken fails at the first byte that is no token; here the file is refused at once.
  if (bytes == 256) return pieces;
  return make_error(StatusCode::kCorruption,
                    "{}: expected each of the 256 single bytes as a token, found {} of them", name,
                    bytes);
}

}  // namespace

Result<BpeModel> RankModelBuilder::build(const std::vector<std::string>& tokens, int32_t first_id,
                                         const std::string& name) {
  MEG_ASSIGN_OR_RETURN(const Pieces pieces, number_pieces(tokens, name));
  BpeModel model;
  // tiktoken chooses anew after every merge.
  model.merge_order_ = MergeOrder::kOneByOne;
  model.vocab_size_ = static_cast<int64_t>(tokens.size());
  model.pieces_.resize(tokens.size());
  model.piece_ids_.resize(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    const int32_t id = first_id + static_cast<int32_t>(i);
    const int32_t piece = pieces.at(token);
    const BpeModel::Span span = {static_cast<uint32_t>(model.bytes_.size()),
                                 static_cast<uint32_t>(token.size())};
    model.bytes_.insert(model.bytes_.end(), token.begin(), token.end());
    model.tokens_.push_back({id, span});
    model.pieces_[static_cast<size_t>(piece)] = span;
    model.piece_ids_[static_cast<size_t>(piece)] = id;
    // tiktoken has no list of merges: it merges the pair whose joined bytes are the token of the
    // lowest rank. So each way to cut a token into two tokens is a merge of that token's rank. Only
    // one of them ever comes up, which merging finds out (MergeTable::used_merges).
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = pieces.find(token.substr(0, cut));
      if (left == pieces.end()) continue;
      const auto right = pieces.find(token.substr(cut));
      if (right == pieces.end()) continue;
      model.merges_.push_back({left->second, right->second, piece, static_cast<int32_t>(i)});
    }
  }
  model.collect_whole_words();
  return model;
}

}  // namespace meg::tokenizer
