#include "libmeg/tokenizer/models/internal/bpe/bpe_model_builder.h"

#include <algorithm>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"

namespace meg::tokenizer {

namespace {

/// A piece for a message: as the file writes it where that is printable.
std::string quoted(std::string_view piece) {
  constexpr size_t kLongest = 80;
  std::string ignored;
  if (piece.size() > kLongest || !append_alphabet_bytes(piece, ignored))
    return text::printable(piece);
  return fmt::format("\"{}\"", piece);
}

}  // namespace

/// A model is built in one pass over the vocabulary and one over the merges. Entries (of the
/// vocabulary, by position in the file) and pieces (what takes part in merging, numbered from the
/// 256 bytes on) are kept apart, because most checks speak of entries while encoders see pieces
/// alone. A piece gets its number when a merge first names it, so pieces are dense and special
/// tokens have none.
BpeModelBuilder::BpeModelBuilder(const Vocabulary& vocabulary, const std::string& vocab_name,
                                 const std::string& merges_name, const BpeRules& rules)
    : vocabulary_(vocabulary), vocab_name_(vocab_name), merges_name_(merges_name), rules_(rules) {
  // Every byte is a piece, also one that the vocabulary lacks: words start as bytes, and Megatron
  // gives such a byte id 0 (warn_of_missing_bytes()).
  for (int byte = 0; byte < 256; ++byte) {
    model_.pieces_.push_back({static_cast<uint32_t>(byte), 1});
    model_.bytes_.push_back(static_cast<char>(byte));
  }
  model_.piece_ids_.assign(256, 0);
  last_merge_to_.assign(256, kNone);
  model_.merge_order_ = rules.merge_order;
  add_tokens();
  if (rules.characters) {
    add_characters();
  } else {
    warn_of_missing_bytes();
  }
  model_.vocab_size_ = static_cast<int64_t>(vocabulary.entries().size());
  const int32_t end_of_text = vocabulary.find(kEndOfText);
  if (end_of_text >= 0) model_.eod_ = vocabulary.entries()[static_cast<size_t>(end_of_text)].id;
}

std::optional<uint8_t> fallback_byte(std::string_view token) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(token[3]);
  const size_t low = kDigits.find(token[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

/// The bytes that a token's text stands for; false where it has characters outside the alphabet.
bool BpeModelBuilder::append_bytes(std::string_view token, std::string& bytes) const {
  if (!rules_.characters || rules_.byte_alphabet) return append_alphabet_bytes(token, bytes);
  const std::optional<uint8_t> byte =
      rules_.byte_fallback ? fallback_byte(token) : std::optional<uint8_t>();
  if (byte) {
    bytes.push_back(static_cast<char>(*byte));
  } else {
    bytes.append(token);
  }
  return true;
}

/// The pieces that words of a model of characters start with.
void BpeModelBuilder::add_characters() {
  model_.of_characters_ = true;
  model_.in_byte_alphabet_ = rules_.byte_alphabet;
  model_.fuse_unknown_ = rules_.fuse_unknown;
  model_.prefix_ = rules_.continuing_subword_prefix;
  model_.suffix_ = rules_.end_of_word_suffix;
  const std::vector<Vocabulary::Entry>& entries = vocabulary_.entries();
  for (size_t entry = 0; entry < entries.size(); ++entry) {
    const std::string_view text = entries[entry].text;
    const std::optional<uint8_t> byte = fallback_byte(text);
    if (rules_.byte_fallback && byte) {
      entry_pieces_[entry] = *byte;
      model_.piece_ids_[*byte] = entries[entry].id;
      model_.fallback_bytes_.set(*byte);
    }
    for (const std::string_view prefix : {std::string_view(), std::string_view(model_.prefix_)}) {
      for (const std::string_view suffix : {std::string_view(), std::string_view(model_.suffix_)}) {
        add_character(static_cast<int32_t>(entry), prefix, suffix);
      }
    }
  }
  const int32_t unknown = rules_.unknown_token ? vocabulary_.find(*rules_.unknown_token) : kNone;
  if (unknown != kNone) model_.unknown_ = piece_of(unknown);
}

/// Adds an entry that is a character between these.
void BpeModelBuilder::add_character(int32_t entry, std::string_view prefix,
                                    std::string_view suffix) {
  std::string_view text = vocabulary_.entries()[static_cast<size_t>(entry)].text;
  if (text.size() <= prefix.size() + suffix.size()) return;
  if (!text.starts_with(prefix) || !text.ends_with(suffix)) return;
  text = text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
  const text::DecodedCodePoint first = text::decode_code_point(text);
  if (first.size != text.size()) return;
  const size_t place = BpeModel::place(!prefix.empty(), !suffix.empty());
  model_.characters_[place][first.code_point] = piece_of(entry);
}

void BpeModelBuilder::add_tokens() {
  const std::vector<Vocabulary::Entry>& entries = vocabulary_.entries();
  in_alphabet_.resize(entries.size());
  entry_pieces_.assign(entries.size(), kNone);
  entry_spans_.reserve(entries.size());
  model_.tokens_.reserve(entries.size());
  std::string bytes;
  for (size_t entry = 0; entry < entries.size(); ++entry) {
    bytes.clear();
    in_alphabet_[entry] = append_bytes(entries[entry].text, bytes);
    // Such a token comes up only by its id: decoding gives its own text.
    if (!in_alphabet_[entry]) bytes = entries[entry].text;
    const BpeModel::Span span = {static_cast<uint32_t>(model_.bytes_.size()),
                                 static_cast<uint32_t>(bytes.size())};
    model_.bytes_.insert(model_.bytes_.end(), bytes.begin(), bytes.end());
    entry_spans_.push_back(span);
    const bool is_fallback =
        rules_.characters && rules_.byte_fallback && fallback_byte(entries[entry].text).has_value();
    if (is_fallback) {
      model_.bytes_.insert(model_.bytes_.end(), entries[entry].text.begin(),
                           entries[entry].text.end());
    }
    model_.tokens_.push_back({entries[entry].id, span, is_fallback});
    if (!rules_.characters && in_alphabet_[entry] && bytes.size() == 1) {
      const auto byte = static_cast<uint8_t>(bytes[0]);
      entry_pieces_[entry] = byte;
      model_.piece_ids_[byte] = entries[entry].id;
    }
  }
}

void BpeModelBuilder::warn_of_missing_bytes() {
  int missing = 256;
  for (const int32_t piece : entry_pieces_) missing -= piece >= 0 ? 1 : 0;
  if (missing == 0) return;
  model_.warnings_.push_back(
      fmt::format("{}: {} of the 256 single bytes are not in the vocabulary and become id 0",
                  vocab_name_, missing));
}

Status BpeModelBuilder::add_merges(const MergeList& list) {
  merges_place_ = list.place;
  model_.merges_.reserve(list.pairs.size());
  earlier_merge_.reserve(list.pairs.size());
  for (const MergeList::Pair& pair : list.pairs) MEG_RETURN_IF_ERROR(add_merge(pair));
  if (looks_like_merge(list.header)) {
    model_.warnings_.push_back(fmt::format(
        "{}: line 1: dropped as a header, as Megatron does, but it looks like a merge: {}",
        merges_name_, quoted(list.header)));
  }
  if (!list.dropped_tail.empty()) {
    model_.warnings_.push_back(
        fmt::format("{}: last line has no line end and is dropped, as Megatron does: {}",
                    merges_name_, quoted(list.dropped_tail)));
  }
  if (list.pairs.empty() && !rules_.characters) {
    model_.warnings_.push_back(
        fmt::format("{}: no merges: every byte becomes one token", merges_name_));
  }
  return {};
}

Status BpeModelBuilder::add_merge(const MergeList::Pair& pair) {
  MEG_ASSIGN_OR_RETURN(const int32_t left, entry_of(pair.left, "left piece", pair));
  MEG_ASSIGN_OR_RETURN(const int32_t right, entry_of(pair.right, "right piece", pair));
  MEG_ASSIGN_OR_RETURN(const int32_t result, result_of(pair));
  if (!in_alphabet_[static_cast<size_t>(result)]) return {};  // no text can hold it
  const int32_t left_piece = piece_of(left);
  const int32_t right_piece = piece_of(right);
  const BpeModel::Merge merge = {left_piece, right_piece, piece_of(result)};
  replace_earlier(merge);
  int32_t& last = last_merge_to_[static_cast<size_t>(merge.result)];
  earlier_merge_.push_back(last);
  last = static_cast<int32_t>(model_.merges_.size());
  model_.merges_.push_back(merge);
  return {};
}

/// The entry of the merged piece. Megatron gives one that the vocabulary lacks id 0 without a word;
/// here such a file is refused.
Result<int32_t> BpeModelBuilder::result_of(const MergeList::Pair& pair) {
  const size_t prefix = rules_.continuing_subword_prefix.size();
  joined_.assign(pair.left).append(pair.right, std::min(prefix, pair.right.size()));
  // Trained vocabularies have the results in the order of the merges, which spares a search.
  const std::vector<Vocabulary::Entry>& entries = vocabulary_.entries();
  for (const size_t near : {last_result_, last_result_ + 1}) {
    if (near >= entries.size() || entries[near].text != joined_) continue;
    last_result_ = near;
    return static_cast<int32_t>(near);
  }
  MEG_ASSIGN_OR_RETURN(const int32_t found, entry_of(joined_, "result", pair));
  last_result_ = static_cast<size_t>(found);
  return found;
}

/// A pair listed twice keeps its last rank, as in Python's dict(zip(pairs, ranks)).
/// The walk is no longer than the result has bytes, once more for each repetition.
void BpeModelBuilder::replace_earlier(const BpeModel::Merge& merge) {
  int32_t* link = &last_merge_to_[static_cast<size_t>(merge.result)];
  while (*link != kNone) {
    const auto index = static_cast<size_t>(*link);
    BpeModel::Merge& earlier = model_.merges_[index];
    if (earlier.left == merge.left && earlier.right == merge.right) {
      earlier.result = kNone;
      ++replaced_;
      *link = earlier_merge_[index];
      return;
    }
    link = &earlier_merge_[index];
  }
}

Result<int32_t> BpeModelBuilder::entry_of(std::string_view text, std::string_view what,
                                          const MergeList::Pair& pair) const {
  const int32_t entry = vocabulary_.find(text);
  if (entry >= 0) return entry;
  return make_error(StatusCode::kCorruption,
                    "{}: {} {}: merge of {} and {}: expected its {} in {}, found none like {}",
                    merges_name_, merges_place_, pair.line, quoted(pair.left), quoted(pair.right),
                    what, vocab_name_, quoted(text));
}

int32_t BpeModelBuilder::piece_of(int32_t entry) {
  const auto index = static_cast<size_t>(entry);
  if (entry_pieces_[index] == kNone) {
    entry_pieces_[index] = model_.piece_count();
    model_.pieces_.push_back(entry_spans_[index]);
    model_.piece_ids_.push_back(vocabulary_.entries()[index].id);
    last_merge_to_.push_back(kNone);
  }
  return entry_pieces_[index];
}

bool BpeModelBuilder::looks_like_merge(std::string_view line) {
  std::string_view pieces[2];
  if (split_pieces(line, pieces) != 2) return false;
  joined_.assign(pieces[0]).append(pieces[1]);
  return vocabulary_.find(pieces[0]) >= 0 && vocabulary_.find(pieces[1]) >= 0 &&
         vocabulary_.find(joined_) >= 0;
}

BpeModel BpeModelBuilder::build() && {
  if (replaced_ > 0) {
    std::erase_if(model_.merges_, [](const BpeModel::Merge& m) { return m.result == kNone; });
  }
  int32_t rank = 0;
  // Only the order of ranks matters, so the gaps that repeated and impossible merges left are
  // closed.
  for (BpeModel::Merge& merge : model_.merges_) merge.rank = rank++;
  sort_tokens();
  if (rules_.ignore_merges) model_.collect_whole_words();
  return std::move(model_);
}

/// An id that several tokens share decodes to the last of them, as in Python's {id: token}.
void BpeModelBuilder::sort_tokens() {
  std::vector<BpeModel::Token>& tokens = model_.tokens_;
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  const auto same_id = [](const auto& a, const auto& b) { return a.id == b.id; };
  std::stable_sort(tokens.begin(), tokens.end(), by_id);
  // std::unique keeps the first of equal ones; backwards that is the last of the file, the sort
  // being stable.
  const auto kept = std::unique(tokens.rbegin(), tokens.rend(), same_id);
  tokens.erase(tokens.begin(), kept.base());
}

}  // namespace meg::tokenizer
