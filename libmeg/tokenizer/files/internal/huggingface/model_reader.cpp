#include "libmeg/tokenizer/files/internal/huggingface/model_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

#include "libmeg/io/digest.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model_builder.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"
#include "libmeg/tokenizer/models/internal/unigram_model.h"
#include "libmeg/tokenizer/models/internal/whole_word_models.h"

namespace meg::tokenizer {
namespace {

/// Ids must be distinct: a text decodes to one token.
Status check_ids(const Vocabulary& vocabulary, const std::string& place) {
  std::vector<Vocabulary::Entry> entries = vocabulary.entries();
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1].id != entries[i].id) continue;
    return make_error(StatusCode::kCorruption,
                      "{}: expected an id for each token, found id {} for both {} and {}", place,
                      entries[i].id, text::printable(entries[i - 1].text),
                      text::printable(entries[i].text));
  }
  return {};
}

/// How many of the bytes that occur in UTF-8 the vocabulary lacks, wherever in a word.
int count_missing_bytes(const Vocabulary& vocabulary, const BpeRules& rules) {
  const std::string& prefix = rules.continuing_subword_prefix;
  const std::string& suffix = rules.end_of_word_suffix;
  int missing = 0;
  for (int byte = 0; byte < 0xf5; ++byte) {
    if (byte == 0xc0 || byte == 0xc1) continue;
    std::string text;
    text::append_code_point(byte_character(static_cast<uint8_t>(byte)), text);
    const auto lacks = [&](const std::string& token) { return vocabulary.find(token) < 0; };
    const bool lacks_one = lacks(text) || lacks(prefix + text) || lacks(text + suffix) ||
                           lacks(prefix + text + suffix);
    missing += lacks_one ? 1 : 0;
  }
  return missing;
}

/// A merge is "a b" or ["a", "b"].
Status read_merge(const JsonPart& part, MergeList& merges) {
  const auto number = static_cast<int64_t>(merges.pairs.size());
  if (part.is_text()) {
    MEG_ASSIGN_OR_RETURN(const std::string_view text, part.text());
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return part.corrupt("two pieces with a space between");
    }
    merges.pairs.push_back({text.substr(0, space), text.substr(space + 1), number});
    return {};
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> pair, part.items());
  if (pair.size() != 2) return part.corrupt("two pieces");
  MEG_ASSIGN_OR_RETURN(const std::string_view left, pair[0].text());
  MEG_ASSIGN_OR_RETURN(const std::string_view right, pair[1].text());
  merges.pairs.push_back({left, right, number});
  return {};
}

Result<BpeRules> read_rules(const JsonPart& part) {
  BpeRules rules;
  rules.merge_order = MergeOrder::kOneByOne;
  MEG_ASSIGN_OR_RETURN(rules.ignore_merges, part.boolean("ignore_merges", false));
  MEG_ASSIGN_OR_RETURN(rules.byte_fallback, part.boolean("byte_fallback", false));
  MEG_ASSIGN_OR_RETURN(rules.fuse_unknown, part.boolean("fuse_unk", false));
  MEG_ASSIGN_OR_RETURN(const std::string unknown, part.text("unk_token", ""));
  if (!unknown.empty()) rules.unknown_token = unknown;
  MEG_ASSIGN_OR_RETURN(rules.continuing_subword_prefix, part.text("continuing_subword_prefix", ""));
  MEG_ASSIGN_OR_RETURN(rules.end_of_word_suffix, part.text("end_of_word_suffix", ""));
  if (const auto dropout = part.find("dropout")) {
    if (dropout->json() != "0" && dropout->json() != "0.0") {
      return dropout->unsupported(dropout->json());
    }
  }
  return rules;
}

Status read_bpe(const JsonPart& part, TokenizerJson& file) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                                       "end_of_word_suffix", "fuse_unk", "byte_fallback",
                                       "ignore_merges", "vocab", "merges"}));
  const bool byte_level = file.pre_tokenizer.byte_level;
  MEG_ASSIGN_OR_RETURN(BpeRules rules, read_rules(part));
  MEG_ASSIGN_OR_RETURN(const JsonPart vocab, part.member("vocab"));
  MEG_ASSIGN_OR_RETURN(file.vocabulary, Vocabulary::read(vocab.value(), vocab.place()));
  MEG_RETURN_IF_ERROR(check_ids(file.vocabulary, vocab.place()));
  if (byte_level) file.missing_bytes = count_missing_bytes(file.vocabulary, rules);
  const bool has_affixes =
      !rules.continuing_subword_prefix.empty() || !rules.end_of_word_suffix.empty();
  // Words of bytes that are all tokens need no look at which of them are.
  rules.byte_alphabet = file.missing_bytes > 0 || (byte_level && has_affixes);
  rules.characters = !byte_level || rules.byte_alphabet;
  if (rules.byte_fallback && (has_affixes || rules.byte_alphabet)) {
    return part.unsupported(fmt::format(
        "byte_fallback {}", has_affixes ? "with continuing_subword_prefix or end_of_word_suffix"
                                        : "after ByteLevel for a vocabulary without every byte"));
  }
  if (rules.unknown_token && file.vocabulary.find(*rules.unknown_token) < 0 && rules.characters) {
    return make_error(StatusCode::kCorruption, "{}: expected unk_token {}, found none",
                      vocab.place(), text::printable(*rules.unknown_token));
  }
  MEG_ASSIGN_OR_RETURN(const JsonPart list, part.member("merges"));
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, list.items());
  MergeList merges;
  merges.place = "merge";
  merges.pairs.reserve(items.size());
  for (const JsonPart& item : items) MEG_RETURN_IF_ERROR(read_merge(item, merges));
  const std::string vocab_place = vocab.place();
  const std::string list_place = list.place();
  BpeModelBuilder builder(file.vocabulary, vocab_place, list_place, rules);
  MEG_RETURN_IF_ERROR(builder.add_merges(merges));
  file.bpe = std::move(builder).build();
  return {};
}

double power_of_ten(int exponent) {
  double power = 0;
  const std::string text = fmt::format("1e{}", exponent);
  std::from_chars(text.data(), text.data() + text.size(), power);
  return power;
}

/// What tokenizers reads where a file says `value`: it takes the digits for an integer, rounds that
/// and divides by a power of ten, so that one number of nine is off by its last bit. Sums of scores
/// are compared, and where they tie this decides.
double as_tokenizers_reads(double value) {
  std::array<char, 32> text{};
  const auto written =
      std::to_chars(text.begin(), text.end(), value, std::chars_format::scientific);
  const std::string_view number(text.data(), static_cast<size_t>(written.ptr - text.data()));
  const size_t mark = number.find('e');
  if (mark == std::string_view::npos) return value;
  uint64_t digits = 0;
  int exponent = 0;
  std::from_chars(number.data() + mark + (number[mark + 1] == '+' ? 2 : 1), written.ptr, exponent);
  bool is_behind_point = false;
  for (const char c : number.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits = digits * 10 + static_cast<uint64_t>(c - '0');
    if (c >= '0' && c <= '9' && is_behind_point) --exponent;
    is_behind_point = is_behind_point || c == '.';
  }
  auto read = static_cast<double>(digits);
  constexpr int kLargest = 308;
  for (; exponent < -kLargest; exponent += kLargest) read /= power_of_ten(kLargest);
  read = exponent < 0 ? read / power_of_ten(-exponent) : read * power_of_ten(exponent);
  return std::copysign(read, value);
}

/// Pieces are `[text, score]`, by id.
Result<std::vector<UnigramModel::Piece>> read_pieces(const JsonPart& vocab) {
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, vocab.items());
  std::vector<UnigramModel::Piece> pieces;
  std::unordered_map<std::string_view, size_t> known;
  for (const JsonPart& item : items) {
    MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> pair, item.items());
    if (pair.size() != 2) return item.corrupt("a piece and its score");
    MEG_ASSIGN_OR_RETURN(const std::string_view text, pair[0].text());
    MEG_ASSIGN_OR_RETURN(const double score, pair[1].number());
    const auto [first, is_new] = known.emplace(text, pieces.size());
    if (!is_new)
      return item.corrupt(fmt::format("a piece that is not piece {} again", first->second));
    pieces.push_back({std::string(text), as_tokenizers_reads(score)});
  }
  if (pieces.empty()) return vocab.corrupt("at least one piece");
  return pieces;
}

Status read_unigram(const JsonPart& part, TokenizerJson& file) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "unk_id", "vocab", "byte_fallback"}));
  MEG_ASSIGN_OR_RETURN(const JsonPart vocab, part.member("vocab"));
  MEG_ASSIGN_OR_RETURN(std::vector<UnigramModel::Piece> pieces, read_pieces(vocab));
  UnigramModel::Options options;
  options.place = part.place();
  MEG_ASSIGN_OR_RETURN(options.byte_fallback, part.boolean("byte_fallback", false));
  if (const auto unknown = part.find("unk_id")) {
    MEG_ASSIGN_OR_RETURN(const int64_t id, unknown->integer());
    if (id < 0 || id >= static_cast<int64_t>(pieces.size()))
      return unknown->corrupt("a piece's id");
    options.unknown_id = static_cast<int32_t>(id);
  }
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(pieces.size());
  for (const auto& piece : pieces) {
    entries.push_back({piece.text, static_cast<int32_t>(entries.size())});
  }
  file.vocabulary = Vocabulary::of(entries);
  file.words = std::make_unique<UnigramModel>(pieces, std::move(options));
  return {};
}

Status read_vocabulary(const JsonPart& part, TokenizerJson& file) {
  MEG_ASSIGN_OR_RETURN(const JsonPart vocab, part.member("vocab"));
  MEG_ASSIGN_OR_RETURN(file.vocabulary, Vocabulary::read(vocab.value(), vocab.place()));
  return check_ids(file.vocabulary, vocab.place());
}

Status read_word_piece(const JsonPart& part, TokenizerJson& file) {
  MEG_RETURN_IF_ERROR(part.allow_only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
  MEG_RETURN_IF_ERROR(read_vocabulary(part, file));
  WordPieceWords::Options options;
  options.place = part.place();
  MEG_ASSIGN_OR_RETURN(options.unknown_token, part.text("unk_token", options.unknown_token));
  MEG_ASSIGN_OR_RETURN(options.continuation,
                       part.text("continuing_subword_prefix", options.continuation));
  if (const auto limit = part.find("max_input_chars_per_word")) {
    MEG_ASSIGN_OR_RETURN(const int64_t characters, limit->integer());
    if (characters < 0) return limit->corrupt("a number of characters");
    options.max_characters = static_cast<size_t>(characters);
  }
  file.words = std::make_unique<WordPieceWords>(file.vocabulary, options);
  return {};
}

Status read_word_level(const JsonPart& part, TokenizerJson& file) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "unk_token", "vocab"}));
  MEG_RETURN_IF_ERROR(read_vocabulary(part, file));
  MEG_ASSIGN_OR_RETURN(std::string unknown, part.text("unk_token", "<unk>"));
  file.words = std::make_unique<WordLevelModel>(file.vocabulary, std::move(unknown), part.place());
  return {};
}

constexpr std::pair<std::string_view, Status (*)(const JsonPart& part, TokenizerJson& file)>
    kReaders[] = {{"BPE", read_bpe},
                  {"Unigram", read_unigram},
                  {"WordPiece", read_word_piece},
                  {"WordLevel", read_word_level}};

/// The kind of a model that does not name it, as older files do.
std::string_view kind_of(const JsonPart& part) {
  if (part.find("merges")) return "BPE";
  const std::optional<JsonPart> vocab = part.find("vocab");
  if (vocab && vocab->is_list()) return "Unigram";
  return part.find("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

std::string digest_of(const std::string& text) {
  io::Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.hex();
}

}  // namespace

Status read_model(const JsonPart& part, TokenizerJson& file) {
  MEG_ASSIGN_OR_RETURN(const std::string type, part.text("type", std::string(kind_of(part))));
  const auto found = std::find_if(std::begin(kReaders), std::end(kReaders),
                                  [&](const auto& reader) { return reader.first == type; });
  if (found == std::end(kReaders)) return part.unsupported(text::printable_name(type));
  if (type != "BPE" && file.pre_tokenizer.byte_level) {
    return part.unsupported(type + " after ByteLevel");
  }
  MEG_RETURN_IF_ERROR(found->second(part, file));
  if (file.words != nullptr) file.words_digest = digest_of(part.json());
  return {};
}

}  // namespace meg::tokenizer
