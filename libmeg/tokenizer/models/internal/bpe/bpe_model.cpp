#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/json/internal/text_file.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model_builder.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"

namespace meg::tokenizer {

Result<BpeModel> BpeModel::load(const std::string& vocab_file, const std::string& merge_file) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile vocab, open_tokenizer_file(vocab_file));
  MEG_ASSIGN_OR_RETURN(const io::MappedFile merges, open_tokenizer_file(merge_file));
  return parse(vocab.text(), vocab_file, merges.text(), merge_file);
}

Result<BpeModel> BpeModel::parse(std::string_view vocab_json, const std::string& vocab_name,
                                 std::string_view merges_text, const std::string& merges_name) {
  MEG_ASSIGN_OR_RETURN(const Vocabulary vocabulary, Vocabulary::parse(vocab_json, vocab_name));
  MEG_ASSIGN_OR_RETURN(const MergeList merges, parse_merge_list(merges_text, merges_name));
  BpeModelBuilder builder(vocabulary, vocab_name, merges_name);
  MEG_RETURN_IF_ERROR(builder.add_merges(merges));
  return std::move(builder).build();
}

void BpeModel::start_pieces(std::string_view word, std::vector<int32_t>& pieces) const {
  pieces.clear();
  if (!merges_characters()) {
    for (const char byte : word) pieces.push_back(static_cast<uint8_t>(byte));
  } else if (in_byte_alphabet_) {
    std::string characters;
    append_byte_characters(word, characters);
    start_characters(characters, pieces);
  } else {
    start_characters(word, pieces);
  }
}

void BpeModel::start_characters(std::string_view word, std::vector<int32_t>& pieces) const {
  // As in Hugging Face's BPE: a character that the vocabulary lacks becomes bytes, where the model
  // has all of its bytes, else the unknown token, which neighbours share where fuse_unk says so.
  // The unknown token is held back until a known character or the end comes: bytes go before it.
  bool holds_unknown = false;
  const auto end_unknown = [&] {
    if (std::exchange(holds_unknown, false)) pieces.push_back(unknown_);
  };
  for (bool is_first = true; !word.empty(); is_first = false) {
    const text::DecodedCodePoint next = text::decode_code_point(word);
    const std::string_view character = word.substr(0, next.size);
    const bool is_last = next.size == word.size();
    const auto& characters =
        characters_[place(!is_first && !prefix_.empty(), is_last && !suffix_.empty())];
    const auto known = characters.find(next.code_point);
    if (known != characters.end()) {
      end_unknown();
      pieces.push_back(known->second);
    } else if (falls_back_to_bytes(character)) {
      for (const char byte : character) pieces.push_back(static_cast<uint8_t>(byte));
    } else if (unknown_ != kNone) {
      if (!fuse_unknown_) end_unknown();
      holds_unknown = true;
    }
    word.remove_prefix(next.size);
  }
  end_unknown();
}

bool BpeModel::falls_back_to_bytes(std::string_view character) const {
  return std::all_of(character.begin(), character.end(), [this](char byte) {
    return fallback_bytes_[static_cast<unsigned char>(byte)];
  });
}

std::string BpeModel::rules(const std::set<int32_t>& apart) const {
  std::string text = fmt::format("bpe {} {} {} {}\n", of_characters_, fallback_bytes_.all(),
                                 of_characters_ && fuse_unknown_, !whole_words_.empty());
  if (in_byte_alphabet_) text.append("byte alphabet\n");
  if (marks_word_borders())
    text.append(fmt::format("affixes {} {} {}\n", prefix_.size(), prefix_, suffix_));
  if (unknown_ != kNone && of_characters_) text.append(piece_bytes(unknown_)).append("\n");
  // Hundreds of thousands of numbers: to_chars is faster than a format string.
  const auto add_number = [&text](size_t number) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.begin(), digits.end(), number).ptr;
    text.append(digits.begin(), end).push_back(' ');
  };
  const auto add = [&](std::string_view bytes) {
    add_number(bytes.size());
    text.append(bytes);
  };
  for (const Token& token : tokens_) {
    // Special tokens are described beside these rules: they may be in the vocabulary or after it,
    // and the ids mean the same.
    if (apart.contains(token.id)) continue;
    add_number(static_cast<size_t>(token.id));
    add(bytes_of(token.span));
  }
  for (const Merge& merge : merges_) {
    add(piece_bytes(merge.left));
    add(piece_bytes(merge.right));
  }
  return text;
}

void BpeModel::collect_whole_words() {
  std::vector<WholeWords::Word> words;
  words.reserve(tokens_.size());
  for (const Token& token : tokens_) {
    // A word is compared with the tokens' texts, so the word "A" is not the token `<0x41>`.
    const Span text = token.is_fallback ? Span{token.span.offset + 1, kFallbackBytes} : token.span;
    words.push_back({bytes_of(text), token.id});
  }
  whole_words_ = WholeWords(std::move(words));
}

std::optional<std::string_view> BpeModel::token_bytes(int32_t id) const {
  const auto by_id = [](const Token& token, int32_t wanted) { return token.id < wanted; };
  const auto index = static_cast<size_t>(id);
  // Ids of most vocabularies have no gaps, so the id is the place.
  if (index < tokens_.size() && tokens_[index].id == id) return bytes_of(tokens_[index].span);
  const auto found = std::lower_bound(tokens_.begin(), tokens_.end(), id, by_id);
  if (found == tokens_.end() || found->id != id) return std::nullopt;
  return bytes_of(found->span);
}

std::vector<std::string_view> BpeModel::token_texts() const {
  std::vector<std::string_view> texts;
  texts.reserve(tokens_.size());
  for (const Token& token : tokens_) texts.push_back(bytes_of(token.span));
  return texts;
}

}  // namespace meg::tokenizer
