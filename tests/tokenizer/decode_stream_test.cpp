// Texts decoded id by id: for random ids of every kind of tokenizer the pieces are whole characters
// and together decode()'s text.

#include "libmeg/tokenizer/interface/decode_stream.h"

#include <gmock/gmock.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/sentencepiece/tiny_model.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

constexpr char kVocab[] = MEG_SOURCE_DIR "/testdata/tokenizer/vocab.json";
constexpr char kMerges[] = MEG_SOURCE_DIR "/testdata/tokenizer/merges.txt";

std::unique_ptr<Tokenizer> open(const TokenizerOptions& options) {
  auto tokenizer = open_tokenizer(options);
  EXPECT_TRUE(tokenizer) << tokenizer.status().message();
  return tokenizer ? *std::move(tokenizer) : nullptr;
}

/// Opens `content` as the file that the options are to name by `file`.
std::unique_ptr<Tokenizer> open_file(TokenizerOptions options, const std::string& content,
                                     std::string TokenizerOptions::*file) {
  const test::TempFolder folder;
  options.*file = folder.path("tokenizer.json");
  test::write_file(options.*file, content);
  return open(options);
}

/// legacy: as of Megatron's older classes.
TokenizerOptions of_type(const std::string& type, bool legacy = false) {
  TokenizerOptions options;
  options.tokenizer_type = type;
  options.legacy_tokenizer = legacy;
  if (legacy) options.version = *megatron::parse_megatron_version("core_v0.15.0");
  return options;
}

/// A vocabulary in which the steps of decoders meet: beginnings of what they replace, bytes of
/// characters, and characters of the byte alphabet.
std::unique_ptr<Tokenizer> open_words(const Json& decoder) {
  const std::vector<std::string> words = {
      "<unk>",  "\u2581", "\u2581a", "a",  " ",   "  ",     "<0xE4>", "<0xB8>", "<0xAD>", "<0xFF>",
      "<0x20>", "<0x4",   "1>",      "##", "##b", "#",      "b",      ".",      "n't",    "do",
      "not",    "'",      "s",       "m",  "ve",  "\u4e2d", "\u00e4", "\u00b8", "\u0143", "\u0120"};
  Json vocabulary;
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  Json file;
  file["model"] = {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", vocabulary}};
  file["decoder"] = decoder;
  return open_file(of_type("HuggingFaceTokenizer"), file.dump(),
                   &TokenizerOptions::tokenizer_model);
}

Json sequence(const std::vector<Json>& steps) {
  return {{"type", "Sequence"}, {"decoders", steps}};
}

Result<std::string> streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  DecodeStream stream(tokenizer);
  std::string text;
  const auto append = [&text](const std::string& piece) {
    EXPECT_EQ(text::find_invalid_utf8(piece), std::string::npos) << text << piece;
    text += piece;
  };
  for (const int32_t id : ids) {
    MEG_ASSIGN_OR_RETURN(const std::string piece, stream.add(id));
    append(piece);
  }
  MEG_ASSIGN_OR_RETURN(const std::string piece, stream.finish());
  append(piece);
  return text;
}

void expect_equal_pieces(const Tokenizer& tokenizer, const std::string& name) {
  std::vector<int32_t> known;
  for (int32_t id = 0; id <= tokenizer.max_id(); ++id) {
    if (tokenizer.token_bytes(id)) known.push_back(id);
  }
  std::mt19937 random(18);
  for (int round = 0; round < 400; ++round) {
    std::vector<int32_t> ids(random() % 24);
    for (int32_t& id : ids) id = known[random() % known.size()];
    ASSERT_EQ(*streamed(tokenizer, ids), *tokenizer.decode(ids))
        << name << ": " << testing::PrintToString(ids);
  }
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  DecodeStream stream(tokenizer);
  std::vector<std::string> all;
  for (const int32_t id : ids) all.push_back(*stream.add(id));
  all.push_back(*stream.finish());
  return all;
}

TEST(DecodeStream, GivesTheWholeTextOfByteTokens) {
  TokenizerOptions gpt2 = of_type("GPT2BPETokenizer");
  gpt2.vocab_file = kVocab;
  gpt2.merge_file = kMerges;
  expect_equal_pieces(*open(gpt2), gpt2.tokenizer_type);
  TokenizerOptions null = of_type("NullTokenizer");
  null.vocab_size = 100;
  expect_equal_pieces(*open(null), null.tokenizer_type);
  std::string ranks;
  constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (unsigned byte = 0; byte < 256; ++byte) {
    ranks += {kBase64[byte >> 2], kBase64[(byte & 3) << 4], '=', '=', ' '};
    ranks += std::to_string(byte) + "\n";
  }
  TokenizerOptions tik = of_type("TikTokenizer");
  tik.tiktoken_num_special_tokens = 10;
  tik.vocab_size = 266;
  expect_equal_pieces(*open_file(tik, ranks, &TokenizerOptions::tokenizer_model),
                      tik.tokenizer_type);
}

/// The 256 bytes, bytes of characters together, a token outside the byte alphabet, an added one.
std::unique_ptr<Tokenizer> open_byte_level() {
  Json file;
  Json vocabulary = Json::parse(test::vocab_json({"\u00e4\u00b8", "\u00b8\u0143", "a\u00e4"}));
  vocabulary["\u4e2d"] = vocabulary.size();
  file["model"] = {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}};
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  file["decoder"] = {{"type", "ByteLevel"}};
  file["added_tokens"] = {{{"id", vocabulary.size()}, {"content", "<s>"}, {"special", true}}};
  return open_file(of_type("HuggingFaceTokenizer"), file.dump(),
                   &TokenizerOptions::tokenizer_model);
}

TEST(DecodeStream, GivesTheWholeTextOfAByteLevelFile) {
  const auto tokenizer = open_byte_level();
  ASSERT_TRUE(tokenizer->joins_token_bytes());
  expect_equal_pieces(*tokenizer, "byte level");
  constexpr int32_t kBegin = 256, kEnd = 0xAD, kCharacter = 259;  // of U+4E2D
  EXPECT_THAT(pieces(*tokenizer, {kBegin, kEnd, kCharacter, kBegin, 'a', kBegin}),
              ElementsAre("", "\u4e2d", "\u4e2d", "", "\uFFFDa", "", "\uFFFD"));
}

/// Tokens of one byte, which counts how often it is asked for one.
class CountingTokenizer : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 256; }

  std::optional<int32_t> eod() const override { return std::nullopt; }

  std::optional<std::string_view> token_bytes(int32_t id) const override {
    ++asked;
    if (id < 0 || id > max_id()) return std::nullopt;
    return std::string_view(bytes_).substr(static_cast<size_t>(id), 1);
  }

  bool joins_token_bytes() const override { return true; }

  int32_t max_id() const override { return 255; }

  std::unique_ptr<TokenEncoder> new_encoder(DType) const override { return nullptr; }

  mutable int asked = 0;

 private:
  Result<std::string> decode_text(std::span<const int32_t> ids, bool more_follow) const override {
    return decode_token_bytes(*this, ids, more_follow);
  }

  const std::string bytes_ = [] {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    return all;
  }();
};

TEST(DecodeStream, AsksForEachTokenOnceWhereBytesAreJoined) {
  const CountingTokenizer tokenizer;
  const std::vector<int32_t> ids(100'000, 0xE4);  // each the begin of a character that never ends
  DecodeStream stream(tokenizer);
  size_t size = 0;
  for (const int32_t id : ids) size += stream.add(id)->size();
  EXPECT_EQ(tokenizer.asked, std::ssize(ids));
  size += stream.finish()->size();
  EXPECT_EQ(tokenizer.asked, std::ssize(ids));
  EXPECT_EQ(size, tokenizer.decode(ids)->size());
}

TEST(DecodeStream, GivesTheWholeTextOfPieces) {
  for (const uint64_t type : {1, 2}) {
    for (const uint64_t remove_extra : {0, 1}) {
      test::TinyModel model = test::abc_model(type);
      for (int byte = 0; byte < 256; ++byte) {
        model.piece(fmt::format("<0x{:02X}>", byte), -9, test::TinyModel::kByte);
      }
      model.trainer(35, 1).normalizer(4, remove_extra);
      for (const char* const name :
           {"GPTSentencePieceTokenizer", "SentencePieceTokenizer", "Llama2Tokenizer"}) {
        for (const bool legacy : {false, true}) {
          expect_equal_pieces(*open_file(of_type(name, legacy), model.serialized(),
                                         &TokenizerOptions::tokenizer_model),
                              name);
        }
      }
    }
  }
}

TEST(DecodeStream, GivesTheWholeTextOfWordPieces) {
  constexpr char kVocabulary[] =
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n.\n\xE4\xB8\xAD\n#\n##\n##n\nn\n't\n'"
      "\n"
      "s\nre\n!\n,\nn't\n";
  for (const bool legacy : {false, true}) {
    expect_equal_pieces(*open_file(of_type("BertWordPieceLowerCase", legacy), kVocabulary,
                                   &TokenizerOptions::vocab_file),
                        "BertWordPieceLowerCase");
  }
}

TEST(DecodeStream, GivesTheWholeTextOfEveryDecoder) {
  const auto replace = [](const char* from, const char* to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const auto replace_pattern = [](const char* from, const char* to) {
    return Json{{"type", "Replace"}, {"pattern", {{"Regex", from}}}, {"content", to}};
  };
  const auto strip = [](const char* content, int start, int stop) {
    return Json{{"type", "Strip"}, {"content", content}, {"start", start}, {"stop", stop}};
  };
  const Json byte_level = {{"type", "ByteLevel"}};
  const Json fallback = {{"type", "ByteFallback"}};
  const Json fuse = {{"type", "Fuse"}};
  const Json metaspace = {{"type", "Metaspace"}};
  const Json word_piece = {{"type", "WordPiece"}};
  const auto word_ends = [](const char* suffix) {
    return Json{{"type", "BPEDecoder"}, {"suffix", suffix}};
  };
  for (const Json& decoder :
       {Json(),
        byte_level,
        fallback,
        fuse,
        metaspace,
        word_piece,
        word_ends("a"),
        word_ends("\u4e2d"),
        sequence({fuse, word_ends("aa")}),
        strip(" ", 1, 1),
        replace(" a", "b"),
        replace_pattern("\\w+$", "b"),
        sequence({fuse, replace_pattern("\\d|a+", "1")}),
        sequence({replace("\u2581", " "), fallback, fuse, strip(" ", 1, 0)}),
        sequence({replace("\u2581", " "), fallback, fuse}),
        sequence({fuse, strip("a", 3, 2)}),
        sequence({fuse, strip("  ", 2, 1), replace("<0x4", "<0")}),
        sequence({fuse, byte_level}),
        sequence({byte_level, strip(" ", 1, 0)}),
        sequence({fuse, fallback, word_piece}),
        sequence({fuse, replace("aab", "a"), word_piece}),
        sequence({fuse, metaspace}),
        sequence({metaspace, fuse, replace("do not", "don't"), strip("\u4e2d", 1, 1)})}) {
    expect_equal_pieces(*open_words(decoder), decoder.dump());
  }
}

TEST(DecodeStream, GivesACharacterWithItsLastByte) {
  const auto bytes = open_words({{"type", "ByteLevel"}});  // a, and the bytes of a character
  EXPECT_THAT(pieces(*bytes, {3, 26, 27, 28, 3}), ElementsAre("a", "", "", "\u4e2d", "a", ""));
  EXPECT_THAT(pieces(*bytes, {26, 27, 3}), ElementsAre("", "", "\uFFFDa", ""));
  EXPECT_THAT(pieces(*bytes, {26}), ElementsAre("", "\uFFFD"));
  const auto fallback = open_words(sequence({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}));
  EXPECT_THAT(pieces(*fallback, {6, 7, 8, 3}), ElementsAre("", "", "", "\u4e2da", ""));
  EXPECT_THAT(pieces(*fallback, {6, 7, 8, 9}),
              ElementsAre("", "", "", "", "\uFFFD\uFFFD\uFFFD\uFFFD"));
}

TEST(DecodeStream, NamesThePlaceOfAnIdThatIsNoToken) {
  const auto bytes = open_byte_level();
  DecodeStream stream(*bytes);
  ASSERT_TRUE(stream.add('a'));
  const std::vector<int32_t> ids = {'a', 261};
  EXPECT_EQ(stream.add(ids[1]).status().message(), bytes->decode(ids).status().message());
}

TEST(DecodeStream, RefusesAnIdThatIsNoToken) {
  const auto tokenizer = open_words(Json());
  DecodeStream stream(*tokenizer);
  EXPECT_EQ(stream.add(1000).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace meg::tokenizer
