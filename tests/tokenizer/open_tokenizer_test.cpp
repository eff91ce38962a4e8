#include "libmeg/tokenizer/registry/open_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "libmeg/tokenizer/registry/identify_tokenizer.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/sentencepiece/tiny_model.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer {
namespace {

using testing::HasSubstr;

Status error_for(const TokenizerOptions& options) { return open_tokenizer(options).status(); }

TokenizerOptions with_type(const std::string& type) {
  TokenizerOptions options;
  options.tokenizer_type = type;
  return options;
}

TEST(OpenTokenizer, OpensGpt2Bpe) {
  const test::TempFolder folder;
  TokenizerOptions options = with_type("GPT2BPETokenizer");
  options.vocab_file = folder.path("vocab.json");
  options.merge_file = folder.path("merges.txt");
  options.version = *megatron::parse_megatron_version("core_v0.15.0");
  test::write_file(options.vocab_file, test::vocab_json({"<|endoftext|>"}));
  test::write_file(options.merge_file, "#version\n");
  const Result<std::unique_ptr<Tokenizer>> tokenizer = open_tokenizer(options);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 257);
  EXPECT_EQ((*tokenizer)->eod(), 256);
  EXPECT_THAT(*(*tokenizer)->encode("a<|endoftext|>"), testing::ElementsAre('a', 256));
  EXPECT_EQ((*tokenizer)->token_bytes(256), "<|endoftext|>");
  EXPECT_EQ((*tokenizer)->token_bytes(257), std::nullopt);
  ASSERT_EQ((*tokenizer)->special_tokens().size(), 1);
  EXPECT_EQ((*tokenizer)->special_tokens()[0].text, "<|endoftext|>");
  EXPECT_EQ((*tokenizer)->special_tokens()[0].id, 256);

  options.legacy_tokenizer = true;
  EXPECT_EQ((*open_tokenizer(options))->encode("a<|endoftext|>")->size(), 14);
}

TEST(OpenTokenizer, NamesTheMissingFlag) {
  TokenizerOptions options = with_type("GPT2BPETokenizer");
  EXPECT_EQ(error_for(options).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(error_for(options).message(), "GPT2BPETokenizer needs `vocab_file`");
  options.vocab_file = "vocab.json";
  EXPECT_EQ(error_for(options).message(), "GPT2BPETokenizer needs `merge_file`");
  EXPECT_THAT(error_for({}).message(), HasSubstr("`tokenizer_type` is missing"));
}

TEST(OpenTokenizer, NamesTheTypesWhereOneIsUnknown) {
  const Status unknown = error_for(with_type("GPT2BPE"));
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.message(), AllOf(HasSubstr("expected GPT2BPETokenizer, HuggingFaceTokenizer"),
                                       HasSubstr("found \"GPT2BPE\"")));
}

/// A tokenizer whose padding token is 7.
class Padded : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 8; }

  std::optional<int32_t> eod() const override { return 6; }

  std::optional<int32_t> pad() const override { return 7; }

  std::optional<std::string_view> token_bytes(int32_t /*id*/) const override { return "x"; }

  int32_t max_id() const override { return 7; }

  std::unique_ptr<TokenEncoder> new_encoder(DType /*dtype*/) const override { return nullptr; }

 protected:
  Result<std::string> decode_text(std::span<const int32_t> /*ids*/,
                                  bool /*more_follow*/) const override {
    return std::string();
  }
};

/// Whether the class of a revision tells datasets its padding token.
bool tells_pad(const std::string& type, std::string_view revision, bool legacy = false) {
  TokenizerOptions options = with_type(type);
  options.legacy_tokenizer = legacy;
  options.version = *megatron::parse_megatron_version(revision);
  return pad_of_datasets(Padded(), options).has_value();
}

TEST(PadOfDatasets, IsWhatTheClassOfTheRevisionTells) {
  for (const char* type : {"SentencePieceTokenizer", "GPTSentencePieceTokenizer",
                           "BertWordPieceLowerCase", "NullTokenizer"}) {
    for (const char* revision : {"core_v0.7.0", "core_v0.14.0", "core_v0.15.0", "core_v0.19.0"}) {
      EXPECT_TRUE(tells_pad(type, revision)) << type << " " << revision;
    }
  }
  // Hugging Face's pad_token_id came into the older class with core 0.15.
  EXPECT_FALSE(tells_pad("HuggingFaceTokenizer", "core_v0.14.0"));
  EXPECT_TRUE(tells_pad("HuggingFaceTokenizer", "core_v0.15.0", true));
  EXPECT_TRUE(tells_pad("HuggingFaceTokenizer", "core_v0.15.0"));
  for (const char* type : {"Llama2Tokenizer", "TikTokenizer"}) {
    EXPECT_FALSE(tells_pad(type, "core_v0.14.0")) << type;
    EXPECT_FALSE(tells_pad(type, "core_v0.16.0", true)) << type;
    EXPECT_TRUE(tells_pad(type, "core_v0.16.0")) << type;
  }
}

/// One file of each kind, by what messages call it.
struct KnownFile {
  std::string name, content, what, reader;
};

std::vector<KnownFile> known_files() {
  return {
      {"tokenizer.json", R"({"version": "1.0", "model": {"type": "BPE"}})", "a tokenizer.json",
       "HuggingFaceTokenizer"},
      {"vocab.json", test::vocab_json({}), "a vocab.json of byte-level BPE", "GPT2BPETokenizer"},
      {"merges.txt", "#version: 0.2\na b\nab c\n", "merges of byte-level BPE", "GPT2BPETokenizer"},
      {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", "a vocab.txt of WordPiece",
       "BertWordPieceLowerCase, BertWordPieceCase"},
      {"llama3.model", "IQ== 0\nIg== 1\nIw== 2\n",
       "tiktoken ranks (such as Llama 3's tokenizer.model)", "TikTokenizer"},
      {"ranks.json", R"([{"rank": 0, "token_bytes": "IQ==", "token_str": "!"}])",
       "a JSON list of tiktoken ranks", "TikTokenizer"},
      {"spiece.model", test::abc_model(2).serialized(), "a SentencePiece model",
       "SentencePieceTokenizer, GPTSentencePieceTokenizer, Llama2Tokenizer"},
  };
}

TEST(OpenTokenizer, SaysWhatAFileOfAnotherTypeIsAndWhichTypeReadsIt) {
  const test::TempFolder folder;
  for (const char* const type :
       {"GPT2BPETokenizer", "HuggingFaceTokenizer", "TikTokenizer", "SentencePieceTokenizer",
        "GPTSentencePieceTokenizer", "Llama2Tokenizer", "BertWordPieceLowerCase",
        "BertWordPieceCase"}) {
    for (const KnownFile& file : known_files()) {
      if (file.reader.find(type) != std::string::npos) continue;
      const std::string path = folder.path(file.name);
      test::write_file(path, file.content);
      TokenizerOptions options = with_type(type);
      options.vocab_file = options.tokenizer_model = path;
      options.merge_file = folder.path("no merges");
      test::write_file(options.merge_file, "#version\n");
      options.tiktoken_pattern = "v2";
      EXPECT_THAT(error_for(options).message(),
                  AllOf(HasSubstr(path + ": expected "), HasSubstr("found " + file.what),
                        HasSubstr("which `tokenizer_type` " + file.reader + " reads")))
          << type;
    }
  }
}

TEST(OpenTokenizer, SaysWhatAFolderOfAnotherTypeHolds) {
  for (const KnownFile& file : known_files()) {
    if (file.name == "tokenizer.json" || file.name == "ranks.json") continue;
    const test::TempFolder folder;
    test::write_file(folder.path(file.name), file.content);
    test::write_file(folder.path("config.json"), "{}");
    TokenizerOptions options = with_type("HuggingFaceTokenizer");
    options.tokenizer_model = folder.path();
    EXPECT_THAT(error_for(options).message(),
                HasSubstr(folder.path() + ": expected a tokenizer.json, found " + file.name + ", " +
                          file.what + ", which `tokenizer_type` " + file.reader + " reads"));
  }
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.model"), known_files().back().content);
  TokenizerOptions options = with_type("Llama2Tokenizer");
  options.tokenizer_model = folder.path();
  EXPECT_EQ(error_for(options).message(),
            folder.path() + ": expected a file, found a folder: name tokenizer.model in it");
}

TEST(OpenTokenizer, SaysThatVocabAndMergesAreSwapped) {
  const test::TempFolder folder;
  TokenizerOptions options = with_type("GPT2BPETokenizer");
  options.vocab_file = folder.path("merges.txt");
  options.merge_file = folder.path("vocab.json");
  test::write_file(options.vocab_file, "#version: 0.2\na b\nab c\n");
  test::write_file(options.merge_file, test::vocab_json({"ab", "abc"}));
  EXPECT_THAT(error_for(options).message(),
              testing::StartsWith("`vocab_file` and `merge_file` are swapped: "));
  std::swap(options.vocab_file, options.merge_file);
  EXPECT_TRUE(open_tokenizer(options).has_value());
}

TEST(OpenTokenizer, APipeIsNoTokenizersFile) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  for (const char* const type : {"GPT2BPETokenizer", "HuggingFaceTokenizer", "TikTokenizer",
                                 "Llama2Tokenizer", "BertWordPieceCase"}) {
    for (const std::string& path : {folder.path("pipe"), std::string("/dev/null")}) {
      TokenizerOptions options = with_type(type);
      options.vocab_file = options.merge_file = options.tokenizer_model = path;
      options.tiktoken_pattern = "v2";
      EXPECT_EQ(error_for(options).message(),
                path + ": expected a regular file, found a pipe or a device")
          << type;
    }
  }
}

TEST(OpenTokenizer, TakesMetadataOfTheTypesLibraryAlone) {
  struct Case {
    const char* json;
    const char* message;  // empty: taken
  };

  const Case cases[] = {
      {R"({"library": "megatron", "class_name": null, "model_type": "gpt"})", ""},
      {R"({"library": "sentencepiece"})",
       "library: expected \"megatron\", that of `tokenizer_type` GPT2BPETokenizer, found "
       "\"sentencepiece\""},
      {R"({"library": "megatron", "model_type": "llama"})", ".model_type: \"llama\" is not"},
      {R"({"library": "megatron", "tokenizer_class": "Mine"})", ".tokenizer_class: "},
      {R"({})", "expected \"library\", found none"},
      {R"([1])", "expected a JSON object"},
  };
  const test::TempFolder folder;
  TokenizerOptions options;
  options.tokenizer_type = "GPT2BPETokenizer";
  options.vocab_file = folder.path("vocab.json");
  options.merge_file = folder.path("merges.txt");
  options.tokenizer_metadata = folder.path("metadata.json");
  options.version = megatron::newest_megatron_version();
  test::write_file(options.vocab_file, test::vocab_json({}));
  test::write_file(options.merge_file, "#version: 0.2\n");
  EXPECT_EQ(open_tokenizer(options).status().code(), StatusCode::kNotFound);
  for (const Case& one : cases) {
    test::write_file(options.tokenizer_metadata, one.json);
    const Status status = open_tokenizer(options).status();
    EXPECT_EQ(status.ok(), std::string_view(one.message).empty()) << status.message();
    EXPECT_THAT(status.message(), testing::HasSubstr(one.message));
  }
  test::write_file(options.tokenizer_metadata, cases[0].json);
  const auto identity = identify_tokenizer(options, *options.version);
  ASSERT_TRUE(identity) << identity.error().message();
  EXPECT_EQ(identity->class_name,
            "megatron.core.tokenizers.text.models.gpt_tokenizer.GPTTokenizer");
  options.legacy_tokenizer = true;  // reads none
  test::write_file(options.tokenizer_metadata, "");
  EXPECT_TRUE(open_tokenizer(options).has_value());
}

}  // namespace
}  // namespace meg::tokenizer
