#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/files/internal/huggingface/hub_cache.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_class.h"
#include "libmeg/tokenizer/json/internal/text_file.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/fast_encoder.h"
#include "libmeg/tokenizer/models/internal/bpe/reference/reference_encoder.h"
#include "libmeg/tokenizer/models/internal/word_encoder.h"
#include "libmeg/tokenizer/steps/internal/hugging_face_encoder.h"
#include "libmeg/tokenizer/words/internal/metaspace_scan.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

// A tokenizer.json as a tokenizer: added tokens are found first, the text between them is
// normalized and cut into words, and the model turns words into ids. For every file there are two
// forms of the last steps, a fast one and a reference.

namespace meg::tokenizer {
namespace {

constexpr std::string_view kFileName = "tokenizer.json";

AddedTokenFinder finder_of(const TokenizerJson& file, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : file.added_tokens) {
    if (token.normalized == normalized) tokens.push_back(token);
  }
  return AddedTokenFinder(std::move(tokens), file.splits_special_tokens);
}

/// Whether a merge joins another character to a space symbol after it, or the model has no such
/// symbol. If not, cutting in front of each symbol changes nothing: no word's result depends on the
/// words around it, and words can be remembered one by one. A model whose space symbol is no piece
/// of its own starts from its bytes, of which merges could cross too.
bool merges_cross_spaces(const BpeModel& model) {
  std::vector<int32_t> start;
  model.start_pieces(kSpaceSymbol, start);
  if (start.size() != 1 || model.piece_bytes(start[0]) != kSpaceSymbol) return true;
  return std::any_of(model.merges().begin(), model.merges().end(), [&](const auto& merge) {
    return model.piece_bytes(merge.right).starts_with(kSpaceSymbol) &&
           !model.piece_bytes(merge.left).ends_with(kSpaceSymbol);
  });
}

/// Where a model of characters may be cut into words that merge for themselves.
fast::WordScanner metaspace_scanner(const TokenizerJson& file) {
  const std::optional<Metaspace>& metaspace = file.pre_tokenizer.metaspace;
  const bool is_default = !metaspace || metaspace->replacement == Metaspace().replacement;
  if (!is_default) return metaspace->split ? nullptr : scan_one_word;
  if (metaspace && metaspace->split) return scan_metaspace_each;
  // Where no merge goes across a space mark, words before and after it merge apart, and each is
  // found in the cache. Else the whole text is one word, as where it may be a token that is not
  // merged.
  const bool is_one = !file.bpe || merges_cross_spaces(*file.bpe) ||
                      !file.bpe->whole_words().empty() || file.bpe->marks_word_borders();
  return is_one ? scan_one_word : scan_metaspace_runs;
}

fast::WordScanner scanner_of(const TokenizerJson& file, InstructionSet set) {
  const KnownSequence* const known_steps = file.pre_tokenizer.known_steps;
  if (known_steps != nullptr) return known_steps->scanner(set);
  const std::string& words = file.pre_tokenizer.words;
  if (!words.empty()) return find_known_pattern(words)->scanner(set);
  const bool is_cut = file.pre_tokenizer.byte_level || !file.pre_tokenizer.steps.empty();
  if (is_cut && !file.pre_tokenizer.metaspace) return scan_one_word;
  return metaspace_scanner(file);
}

/// Where texts that no expression divides may be cut; nullopt if the model may join what no piece
/// contains: unknown characters, or those beside ones that are left out.
std::optional<fast::WordSplit> split_of(const TokenizerJson& file) {
  const BpeModel& bpe = *file.bpe;
  if (!file.pre_tokenizer.words.empty() || !bpe.merges_characters()) return std::nullopt;
  if (!bpe.knows_all_bytes() || !bpe.whole_words().empty()) return std::nullopt;
  std::vector<std::string_view> pieces;
  for (int32_t piece = 0; piece < bpe.piece_count(); ++piece) {
    pieces.push_back(bpe.piece_bytes(piece));
  }
  fast::WordSplit split(pieces, fast::SpaceMark::kSymbol);
  if (file.pre_tokenizer.metaspace && file.pre_tokenizer.metaspace->split) split.cut_before_marks();
  return split;
}

/// The reference implementation: words by the regular expression that the file names.
Result<std::function<size_t(std::string_view)>> reference_words(const TokenizerJson& file) {
  const std::string& words = file.pre_tokenizer.words;
  const std::optional<Metaspace>& metaspace = file.pre_tokenizer.metaspace;
  const bool splits = metaspace && metaspace->split;
  if (words.empty() && !splits) {  // parts of texts, which need not be UTF-8
    return std::function<size_t(std::string_view)>(
        [](std::string_view text) { return text.size(); });
  }
  const std::string pattern = splits ? fmt::format("\\p{{Any}}[^{}]*", kSpaceSymbol) : words;
  MEG_ASSIGN_OR_RETURN(const RegexMatcher matcher, RegexMatcher::compile(pattern, "pattern"));
  return std::function<size_t(std::string_view)>([matcher](std::string_view text) {
    const auto found = *matcher.find(text, 0);
    if (!found) return text.size();
    // The text up to the match, if something stands before it: it is a word as well.
    return found->first > 0 ? found->first : found->second;
  });
}

/// The tokenizer.json that --tokenizer-model stands for. What lies on the disk goes before the
/// cache, as in transformers.
Result<std::filesystem::path> find_file(const std::string& model) {
  std::filesystem::path path(model);
  if (!std::filesystem::exists(path)) path = cached_model_folder(model).value_or(model);
  if (std::filesystem::is_directory(path)) path /= kFileName;
  if (std::filesystem::exists(path)) return path;
  return make_error(StatusCode::kNotFound,
                    "{}: expected a folder with {}, or the name of a model in {}, found neither "
                    "(nothing is downloaded)",
                    model, kFileName, hub_cache_folder());
}

std::optional<int32_t> named_id(const TokenizerJson& file, const TokenizerConfig& config,
                                std::string_view name) {
  const AddedToken* const token = config.named(name);
  return token == nullptr ? std::nullopt : file.token_id(token->content);
}

/// tokenizers says nothing of it.
std::optional<std::string> check_bytes(const TokenizerJson& file, const std::string& name) {
  if (file.missing_bytes == 0) return std::nullopt;
  return fmt::format(
      "{}: {} of the 243 bytes that occur in UTF-8 are not in the vocabulary; {}, as in tokenizers",
      name, file.missing_bytes,
      file.bpe->unknown_id() ? "they become unk_token" : "texts lose them");
}

/// transformers 4 has classes that put bos and eos around a text by flags of their own.
std::optional<std::string> check_added_around(const TokenizerJson& file,
                                              const TokenizerConfig& config,
                                              const std::string& name) {
  const bool begins = config.add_bos_token.value_or(!file.prefix.empty());
  const bool ends = config.add_eos_token.value_or(!file.suffix.empty());
  if (begins == !file.prefix.empty() && ends == !file.suffix.empty()) return std::nullopt;
  return fmt::format(
      "{}: tokens around a text are those of its post_processor, as by transformers 5, not those "
      "of add_bos_token and add_eos_token in tokenizer_config.json",
      name);
}

/// transformers takes spaces in front of punctuation out of decoded texts, other than those of BPE.
std::optional<std::string> check_spaces(const TokenizerJson& file, const TokenizerConfig& config,
                                        const std::string& name) {
  if (!config.cleans_up_spaces || (file.bpe && !config.cleans_up_bpe_spaces)) return std::nullopt;
  return fmt::format(
      "{}: decoded texts keep the spaces that clean_up_tokenization_spaces in "
      "tokenizer_config.json removes before core 0.15",
      name);
}

/// Without special tokens core looks up the text of each token once more; what is not found there
/// becomes unk_token.
std::optional<std::string> check_looked_up(const TokenizerJson& file, const TokenizerConfig& config,
                                           const std::string& name) {
  const auto changes_text = [&](const AddedToken& token) {
    return token.lstrip || token.rstrip || (token.normalized && file.normalizer != nullptr);
  };
  const auto added = std::find_if(file.added_tokens.begin(), file.added_tokens.end(), changes_text);
  if (added != file.added_tokens.end()) {
    return fmt::format(
        "{}: added token {} keeps its id where the text differs from it, such as by spaces that "
        "it strips; core 0.15 and 0.16 have unk_token there",
        name, text::printable(added->content));
  }
  const std::optional<int32_t> unknown =
      file.words == nullptr ? std::nullopt : file.words->unknown_id();
  if (!unknown || named_id(file, config, "unk_token") == unknown) return std::nullopt;
  return fmt::format(
      "{}: unknown text has the unk_id of the model; core 0.15 and 0.16 have the unk_token of "
      "tokenizer_config.json there",
      name);
}

}  // namespace

HuggingFaceTokenizer::HuggingFaceTokenizer(TokenizerJson file, const Options& options)
    : file_(std::move(file)), options_(options) {
  collect_tokens();
}

Result<std::unique_ptr<HuggingFaceTokenizer>> HuggingFaceTokenizer::open(const std::string& path,
                                                                         const Options& options) {
  MEG_ASSIGN_OR_RETURN(const std::filesystem::path file_path, find_file(path));
  MEG_ASSIGN_OR_RETURN(const TokenizerConfig config,
                       read_tokenizer_config(file_path.parent_path().string()));
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, open_tokenizer_file(file_path.string()));
  return parse(file.text(), file_path.string(), config, options);
}

Result<std::unique_ptr<HuggingFaceTokenizer>> HuggingFaceTokenizer::parse(std::string_view json,
                                                                          const std::string& name,
                                                                          TokenizerConfig config,
                                                                          const Options& options) {
  MEG_ASSIGN_OR_RETURN(TokenizerJson file, read_tokenizer_json(json, name, options.core, config));
  std::unique_ptr<HuggingFaceTokenizer> made(new HuggingFaceTokenizer(std::move(file), options));
  const TokenizerJson& read = made->file_;
  for (std::optional<std::string> warning :
       {check_bytes(read, name), check_tokenizer_class(read, config, name),
        check_added_around(read, config, name),
        options.core ? std::nullopt : check_spaces(read, config, name),
        options.core && !options.include_special_tokens ? check_looked_up(read, config, name)
                                                        : std::nullopt}) {
    if (warning) made->warnings_.push_back(std::move(*warning));
  }
  made->in_text_ = finder_of(read, false);
  made->in_normalized_ = finder_of(read, true);
  made->eod_ = named_id(read, config, "eos_token");
  made->bos_ = named_id(read, config, "bos_token");
  made->pad_ = named_id(read, config, "pad_token");
  if (options.reference) {
    MEG_ASSIGN_OR_RETURN(made->reference_words_, reference_words(read));
    return made;
  }
  made->scan_ = scanner_of(read, options.instruction_set);
  if (made->scan_ == nullptr) {
    return make_error(StatusCode::kUnsupported,
                      "{}.pre_tokenizer: Metaspace with another replacement is not supported",
                      name);
  }
  if (read.bpe) {
    MEG_ASSIGN_OR_RETURN(made->merge_table_, fast::MergeTable::build(*read.bpe));
    made->split_ = split_of(read);
    if (made->split_) made->scan_ = fast::vector_functions(options.instruction_set).scan_split;
  }
  return made;
}

void HuggingFaceTokenizer::collect_tokens() {
  std::vector<Vocabulary::Entry> tokens = file_.vocabulary.entries();
  std::set<int32_t> rewritten;  // added tokens that are decoded otherwise than the file writes them
  for (const AddedToken& token : file_.added_tokens) {
    tokens.push_back({token.matched, token.id});
    if (token.matched != token.content) rewritten.insert(token.id);
  }
  // Bytes may come from a normalizer as well; then only the decoder says so.
  const bool in_alphabet = file_.pre_tokenizer.byte_level || file_.decoder->is_byte_level();
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  ids_.reserve(tokens.size());
  texts_.reserve(tokens.size());
  bytes_.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto [text, id] = tokens[i];
    // The added token of an id goes before that of the vocabulary, and the last one before others.
    if (i + 1 < tokens.size() && tokens[i + 1].id == id) continue;
    // Without the byte-level alphabet tokens are text, with the space mark for a space.
    std::string bytes;
    if (!in_alphabet || !append_alphabet_bytes(text, bytes)) {
      bytes = file_.words              ? file_.words->token_bytes(text)
              : rewritten.contains(id) ? std::string(text)
                                       : std::string(file_.bpe->token_bytes(id).value_or(text));
      for (size_t at = 0; !in_alphabet && (at = bytes.find(kSpaceSymbol, at)) != std::string::npos;
           ++at) {
        bytes.replace(at, kSpaceSymbol.size(), " ");
      }
    }
    ids_.push_back(id);
    texts_.emplace_back(text);
    bytes_.push_back(std::move(bytes));
  }
}

std::unique_ptr<TokenEncoder> HuggingFaceTokenizer::new_word_encoder(DType dtype) const {
  if (file_.words) {
    return options_.reference ? new_reference_word_encoder(*file_.words, reference_words_)
                              : tokenizer::new_word_encoder(*file_.words, dtype, scan_);
  }
  if (options_.reference) {
    return reference::new_reference_encoder(*file_.bpe, dtype, reference_words_);
  }
  return fast::new_fast_encoder(*file_.bpe, *merge_table_, dtype, scan_, options_.instruction_set,
                                split_ ? &*split_ : nullptr);
}

std::unique_ptr<TokenEncoder> HuggingFaceTokenizer::new_encoder(DType dtype) const {
  const bool specials = options_.include_special_tokens;
  const HuggingFaceEncoder::Parts parts{
      .prefix = specials ? std::span(file_.prefix) : std::span<const int32_t>(),
      .suffix = specials ? std::span(file_.suffix) : std::span<const int32_t>(),
      .in_text = in_text_,
      .normalizer = file_.normalizer.get(),
      .in_normalized = in_normalized_,
      .pre_tokenizer = file_.pre_tokenizer,
      .skips_steps = file_.pre_tokenizer.known_steps != nullptr && !options_.reference};
  return std::make_unique<HuggingFaceEncoder>(parts, new_word_encoder(dtype));
}

std::vector<SpecialToken> HuggingFaceTokenizer::special_tokens() const {
  std::vector<SpecialToken> tokens;
  for (const AddedToken& token : file_.added_tokens) {
    if (token.special) tokens.push_back({token.content, token.id});
  }
  return tokens;
}

std::optional<std::string> HuggingFaceTokenizer::rules() const {
  std::set<int32_t> apart;
  for (const SpecialToken& token : special_tokens()) apart.insert(token.id);
  std::string text = file_.bpe ? file_.bpe->rules(apart) : file_.words_digest;
  text += file_.pre_tokenizer.rules() + file_.normalizer_json;
  if (file_.splits_special_tokens) text += "\nsplit_special_tokens";
  for (const AddedToken& token : file_.added_tokens) {
    // Without a normalizer both kinds of added tokens are looked for in the same text.
    const bool normalized = token.normalized && file_.normalizer != nullptr;
    const bool is_plain =
        token.special && !normalized && !token.single_word && !token.lstrip && !token.rstrip;
    // What special_tokens() does not say: two tokenizers with equal rules encode alike.
    if (is_plain) continue;  // special_tokens() says all
    text += fmt::format("\nadded {} {} {} {} {} {}", token.content, token.id, normalized,
                        token.single_word, token.lstrip, token.rstrip);
  }
  return text;
}

/// Where the id's token is in ids_; past the end where there is none.
size_t HuggingFaceTokenizer::index_of(int32_t id) const {
  // Few tokenizers leave out ids.
  const auto place = static_cast<size_t>(id);
  if (place < ids_.size() && ids_[place] == id) return place;
  const auto found = std::lower_bound(ids_.begin(), ids_.end(), id);
  if (found == ids_.end() || *found != id) return ids_.size();
  return static_cast<size_t>(found - ids_.begin());
}

std::optional<std::string_view> HuggingFaceTokenizer::token_bytes(int32_t id) const {
  const size_t index = index_of(id);
  if (index == ids_.size()) return std::nullopt;
  return bytes_[index];
}

Result<std::string> HuggingFaceTokenizer::decode_text(std::span<const int32_t> ids,
                                                      bool more_follow) const {
  if (joins_token_bytes()) return decode_token_bytes(*this, ids, more_follow);
  std::vector<std::string> tokens;
  for (size_t i = 0; i < ids.size(); ++i) {
    MEG_RETURN_IF_ERROR(bytes_of_token(ids[i], i).status());
    tokens.push_back(texts_[index_of(ids[i])]);
  }
  using Following = TokenDecoder::Following;
  Following following = more_follow ? Following::kTokens : Following::kNothing;
  MEG_RETURN_IF_ERROR(file_.decoder->apply(tokens, following));
  std::string text;
  for (const std::string& token : tokens) text += token;
  if (more_follow) text.resize(text::size_of_whole_characters(text));
  return text;
}

std::optional<HuggingFaceTokenizer::Options> core_options(const TokenizerOptions& options) {
  const megatron::MegatronVersion version =
      options.version.value_or(megatron::newest_megatron_version());
  if (options.legacy_tokenizer || version.core_tokenizers == 0) return std::nullopt;
  HuggingFaceTokenizer::Options chosen;
  chosen.core = true;
  chosen.include_special_tokens =
      options.hf_include_special_tokens.value_or(version.hugging_face_special_tokens);
  return chosen;
}

bool includes_special_tokens(const TokenizerOptions& options) {
  const auto core = core_options(options);
  return !core || core->include_special_tokens;
}

Result<std::unique_ptr<Tokenizer>> open_hugging_face(const TokenizerOptions& options) {
  MEG_ASSIGN_OR_RETURN(
      std::unique_ptr<Tokenizer> tokenizer,
      HuggingFaceTokenizer::open(options.tokenizer_model,
                                 core_options(options).value_or(HuggingFaceTokenizer::Options())));
  return tokenizer;
}

}  // namespace meg::tokenizer
