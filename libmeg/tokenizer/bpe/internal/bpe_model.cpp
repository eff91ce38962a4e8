#include "libmeg/tokenizer/bpe/internal/bpe_model.h"

#include <algorithm>

#include "libmeg/tokenizer/bpe/internal/bpe_model_builder.h"
#include "libmeg/tokenizer/internal/text_file.h"

namespace meg::tokenizer {

Result<BpeModel> BpeModel::load(const std::string& vocab_file, const std::string& merge_file) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile vocab, open_tokenizer_file(vocab_file));
  MEG_ASSIGN_OR_RETURN(const io::MappedFile merges, open_tokenizer_file(merge_file));
  return parse(text_of(vocab), vocab_file, text_of(merges), merge_file);
}

Result<BpeModel> BpeModel::parse(std::string_view vocab_json, const std::string& vocab_name,
                                 std::string_view merges_text, const std::string& merges_name) {
  MEG_ASSIGN_OR_RETURN(const Vocabulary vocabulary, Vocabulary::parse(vocab_json, vocab_name));
  MEG_ASSIGN_OR_RETURN(const MergeList merges, parse_merge_list(merges_text, merges_name));
  BpeModelBuilder builder(vocabulary, vocab_name, merges_name);
  MEG_RETURN_IF_ERROR(builder.add_merges(merges));
  return std::move(builder).build();
}

std::optional<std::string_view> BpeModel::token_bytes(int32_t id) const {
  const auto by_id = [](const Token& token, int32_t wanted) { return token.id < wanted; };
  const auto index = static_cast<size_t>(id);
  if (index < tokens_.size() && tokens_[index].id == id) return bytes_of(tokens_[index].span);
  const auto found = std::lower_bound(tokens_.begin(), tokens_.end(), id, by_id);
  if (found == tokens_.end() || found->id != id) return std::nullopt;
  return bytes_of(found->span);
}

}  // namespace meg::tokenizer
