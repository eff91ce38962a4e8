#include "libmeg/tokenizer/steps/internal/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model_builder.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"
#include "libmeg/tokenizer/regex/internal/regex_matcher.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"
#include "libmeg/tokenizer/steps/internal/replace_text.h"

// Each step of a decoder maps a list of tokens to another. Text is generated token by token, so a
// step may be asked about tokens whose end has not come yet (Following): it then gives only what no
// further token can change.

namespace meg::tokenizer {
namespace {

using Tokens = std::vector<std::string>;

using Following = TokenDecoder::Following;

/// Whether what follows may be more of the token, one of tokens.
bool grows(const std::string& token, const Tokens& tokens, Following following) {
  return following == Following::kText && &token == &tokens.back();
}

/// Drops the token that may still grow, for a step that needs whole tokens.
void drop_growing(Tokens& tokens, Following following) {
  if (following == Following::kText && !tokens.empty()) tokens.pop_back();
}

void join(Tokens& tokens, std::string_view between, Following& following) {
  std::string all;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) all += between;
    all += tokens[i];
  }
  tokens = {std::move(all)};
  if (following == Following::kTokens) following = Following::kText;
}

class JoinBySpaces : public TokenDecoder {
 public:
  Status apply(Tokens& tokens, Following& following) const override {
    join(tokens, " ", following);
    return {};
  }
};

class Fuse : public TokenDecoder {
 public:
  Status apply(Tokens& tokens, Following& following) const override {
    join(tokens, "", following);
    return {};
  }
};

/// Every character is a byte; a token with others stands for itself.
class ByteLevel : public TokenDecoder {
 public:
  bool is_byte_level() const override { return true; }

  Status apply(Tokens& tokens, Following& following) const override {
    drop_growing(tokens, following);
    std::string bytes;
    for (const std::string& token : tokens) {
      if (!append_alphabet_bytes(token, bytes)) bytes += token;
    }
    // A character whose bytes have not all come is kept back.
    if (following != Following::kNothing) bytes.resize(text::size_of_whole_characters(bytes));
    std::string text;
    text::append_replacing_invalid_utf8(bytes, text);
    tokens = {std::move(text)};
    if (following == Following::kTokens) following = Following::kText;
    return {};
  }
};

/// Runs of `<0x41>` become characters, or U+FFFD each where they are not UTF-8.
class ByteFallback : public TokenDecoder {
 public:
  Status apply(Tokens& tokens, Following& following) const override {
    drop_growing(tokens, following);
    Tokens decoded;
    std::string bytes;
    const auto end_run = [&] {
      if (text::find_invalid_utf8(bytes) == std::string_view::npos) {
        if (!bytes.empty()) decoded.push_back(bytes);
      } else {
        decoded.insert(decoded.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<uint8_t> byte = fallback_byte(token)) {
        bytes.push_back(static_cast<char>(*byte));
        continue;
      }
      end_run();
      decoded.push_back(std::move(token));
    }
    // One more byte may spoil all of a run.
    if (following == Following::kNothing) end_run();
    tokens = std::move(decoded);
    return {};
  }
};

class Replace : public TokenDecoder {
 public:
  Replace(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  Status apply(Tokens& tokens, Following& following) const override {
    for (std::string& token : tokens) {
      replace_all(token, from_, to_, grows(token, tokens, following));
    }
    return {};
  }

 private:
  std::string from_, to_;
};

class PatternDecoder : public TokenDecoder {
 public:
  PatternDecoder(RegexMatcher from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  Status apply(Tokens& tokens, Following& following) const override {
    drop_growing(tokens, following);  // What follows may change any match.
    for (std::string& token : tokens) {
      std::string replaced;
      size_t at = 0;
      while (true) {
        MEG_ASSIGN_OR_RETURN(const auto found, from_.find(token, at));
        if (!found) break;
        replaced.append(token, at, found->first - at).append(to_);
        at = found->second;
      }
      token = replaced.append(token, at);
    }
    return {};
  }

 private:
  RegexMatcher from_;
  std::string to_;
};

class StripDecoder : public TokenDecoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  Status apply(Tokens& tokens, Following& following) const override {
    for (std::string& token : tokens) strip(token, grows(token, tokens, following));
    return {};
  }

 private:
  void strip(std::string& token, bool more_follows) const {
    int64_t left = start_;
    for (; left > 0 && token.starts_with(content_); --left) token.erase(0, content_.size());
    if (more_follows) {
      // The rest may become one more of those at the start, and what is stripped at the end may
      // reach this far back.
      if (left > 0 && content_.starts_with(token)) token.clear();
      for (int64_t i = 0; i < stop_ && !token.empty(); ++i) {
        token.resize(token.size() - std::min(token.size(), content_.size()));
      }
      return;
    }
    for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i) {
      token.erase(token.size() - content_.size());
    }
  }

  std::string content_;
  int64_t start_, stop_;
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  // The first token of a text alone loses its space, as encoding had put one in front of it.
  MetaspaceDecoder(std::string replacement, bool prepended)
      : replacement_(std::move(replacement)), prepended_(prepended) {}

  Status apply(Tokens& tokens, Following& following) const override {
    for (std::string& token : tokens) {
      const bool is_first = &token == &tokens.front();
      replace_all(token, replacement_, is_first && prepended_ ? "" : " ",
                  grows(token, tokens, following));
    }
    return {};
  }

 private:
  std::string replacement_;
  bool prepended_;
};

/// Words with spaces between them, and none before most punctuation.
class WordPieceDecoder : public TokenDecoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  Status apply(Tokens& tokens, Following& following) const override {
    // It may still become a part of a word, which is written without a space.
    const bool is_undecided = tokens.size() > 1 && tokens.back().size() < prefix_.size() &&
                              prefix_.starts_with(tokens.back());
    if (is_undecided && following == Following::kText) tokens.pop_back();
    for (std::string& token : tokens) {
      const bool is_first = &token == &tokens.front();
      if (!is_first && token.starts_with(prefix_)) {
        token.erase(0, prefix_.size());
      } else if (!is_first) {
        token.insert(0, " ");
      }
      if (!cleanup_) continue;
      const bool more_follows = grows(token, tokens, following);
      for (const auto& [from, to] : kGaps) replace_all(token, from, to, more_follows);
    }
    return {};
  }

 private:
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kGaps = {{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};

  std::string prefix_;
  bool cleanup_;
};

/// The end of a word is a space, but not that of the last one.
class BpeDecoder : public TokenDecoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  Status apply(Tokens& tokens, Following& following) const override {
    for (std::string& token : tokens) {
      const bool is_last = &token == &tokens.back();
      if (is_last && following != Following::kNothing)
        token.resize(std::min(token.find(suffix_), token.size()));
      replace_all(token, suffix_, is_last ? "" : " ", grows(token, tokens, following));
    }
    return {};
  }

 private:
  std::string suffix_;
};

class SequenceDecoder : public TokenDecoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<TokenDecoder>> steps)
      : steps_(std::move(steps)) {}

  Status apply(Tokens& tokens, Following& following) const override {
    for (const auto& step : steps_) MEG_RETURN_IF_ERROR(step->apply(tokens, following));
    return {};
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> steps_;
};

using MadeDecoder = Result<std::unique_ptr<TokenDecoder>>;

template <class Kind, class... Values>
MadeDecoder make_decoder(Values&&... values) {
  return std::unique_ptr<TokenDecoder>(std::make_unique<Kind>(std::forward<Values>(values)...));
}

MadeDecoder read_replace_decoder(const JsonPart& part) {
  MEG_ASSIGN_OR_RETURN(const JsonPart pattern, part.member("pattern"));
  MEG_RETURN_IF_ERROR(pattern.allow_only({"String", "Regex"}));
  MEG_ASSIGN_OR_RETURN(const std::string to, part.text("content", ""));
  if (const std::optional<JsonPart> regex = pattern.find("Regex")) {
    MEG_ASSIGN_OR_RETURN(const std::string_view text, regex->text());
    MEG_ASSIGN_OR_RETURN(RegexMatcher matcher, RegexMatcher::compile(text, regex->place()));
    return make_decoder<PatternDecoder>(std::move(matcher), to);
  }
  MEG_ASSIGN_OR_RETURN(const std::string from, pattern.text("String", ""));
  if (from.empty()) return pattern.unsupported("an empty pattern");
  return make_decoder<Replace>(from, to);
}

Result<int64_t> read_count(const JsonPart& part, std::string_view key) {
  const std::optional<JsonPart> count = part.find(key);
  return count ? count->integer() : int64_t{0};
}

MadeDecoder read_strip_decoder(const JsonPart& part) {
  MEG_ASSIGN_OR_RETURN(const std::string content, part.text("content", " "));
  MEG_ASSIGN_OR_RETURN(const int64_t start, read_count(part, "start"));
  MEG_ASSIGN_OR_RETURN(const int64_t stop, read_count(part, "stop"));
  if (content.empty()) return part.unsupported("an empty content");
  return make_decoder<StripDecoder>(content, start, stop);
}

MadeDecoder read_metaspace(const JsonPart& part) {
  MEG_ASSIGN_OR_RETURN(const std::string replacement, read_space_replacement(part));
  MEG_ASSIGN_OR_RETURN(const bool old, part.boolean("add_prefix_space", true));
  MEG_ASSIGN_OR_RETURN(const std::string scheme,
                       part.text("prepend_scheme", old ? "always" : "never"));
  return make_decoder<MetaspaceDecoder>(replacement, scheme != "never");
}

MadeDecoder read_word_piece(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "prefix", "cleanup"}));
  MEG_ASSIGN_OR_RETURN(const std::string prefix, part.text("prefix", "##"));
  MEG_ASSIGN_OR_RETURN(const bool cleanup, part.boolean("cleanup", true));
  return make_decoder<WordPieceDecoder>(prefix, cleanup);
}

MadeDecoder read_bpe_decoder(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "suffix"}));
  MEG_ASSIGN_OR_RETURN(const std::string suffix, part.text("suffix", "</w>"));
  if (suffix.empty()) return part.unsupported("an empty suffix");
  return make_decoder<BpeDecoder>(suffix);
}

MadeDecoder read_sequence_decoder(const JsonPart& part) {
  MEG_ASSIGN_OR_RETURN(const JsonPart list, part.member("decoders"));
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, list.items());
  std::vector<std::unique_ptr<TokenDecoder>> steps;
  for (const JsonPart& item : items) {
    MEG_ASSIGN_OR_RETURN(std::unique_ptr<TokenDecoder> step, read_decoder(item));
    steps.push_back(std::move(step));
  }
  return make_decoder<SequenceDecoder>(std::move(steps));
}

}  // namespace

MadeDecoder read_decoder(const std::optional<JsonPart>& part) {
  if (!part) return make_decoder<JoinBySpaces>();
  MEG_ASSIGN_OR_RETURN(const std::string_view type, part->type());
  if (type == "Sequence") return read_sequence_decoder(*part);
  if (type == "ByteLevel") return make_decoder<ByteLevel>();
  if (type == "ByteFallback") return make_decoder<ByteFallback>();
  if (type == "Fuse") return make_decoder<Fuse>();
  if (type == "Replace") return read_replace_decoder(*part);
  if (type == "Strip") return read_strip_decoder(*part);
  if (type == "Metaspace") return read_metaspace(*part);
  if (type == "WordPiece") return read_word_piece(*part);
  if (type == "BPEDecoder") return read_bpe_decoder(*part);
  return part->unsupported(text::printable_name(type));
}

}  // namespace meg::tokenizer
