// What Megatron-LM's own build_tokenizer() gave for each tokenizer at each revision;
// testdata/tokenizer_identities says how the file was made.

#include "libmeg/tokenizer/registry/identify_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/temp_folder.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

TokenizerOptions options_of(const std::string& type, bool legacy = false) {
  TokenizerOptions options;
  options.tokenizer_type = type;
  options.vocab_file = "gpt2/vocab.json";
  options.merge_file = "gpt2/merges.txt";
  options.tokenizer_model = "model/tokenizer.model";
  options.vocab_size = 50257;
  options.legacy_tokenizer = legacy;
  return options;
}

Json json_of(const megatron::TokenizerIdentity::Path& path) {
  if (std::holds_alternative<std::monostate>(path)) return nullptr;
  if (const auto* text = std::get_if<std::string>(&path)) return *text;
  Json list = Json::array();
  for (const auto& file : std::get<2>(path)) list.push_back(file ? Json(*file) : Json());
  return list;
}

Json json_of(const megatron::TokenizerIdentity& identity) {
  Json object;
  object["class"] = identity.class_name;
  object["tokenizer_path"] = json_of(identity.tokenizer_path);
  for (const auto& [name, value] : identity.options) object[name] = value;
  return object;
}

TEST(IdentifyTokenizer, SaysWhatMegatronSaysAtEveryRevision) {
  const Json cases =
      Json::parse(test::read_file(MEG_SOURCE_DIR "/testdata/tokenizer_identities/identities.json"));
  ASSERT_FALSE(cases.empty());
  for (const Json& expected : cases) {
    SCOPED_TRACE(expected.dump());
    const auto version = megatron::parse_megatron_version(expected["revision"].get<std::string>());
    ASSERT_TRUE(version.has_value());
    const Result<megatron::TokenizerIdentity> found =
        identify_tokenizer(options_of(expected["type"], expected["legacy"]), *version);
    if (expected["identity"].is_null()) {
      EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(found.has_value()) << found.error().message();
    EXPECT_EQ(json_of(*found).dump(), expected["identity"].dump());  // the order counts
  }
}

TEST(IdentifyTokenizer, NamesARevisionThatHasNoSuchTokenizer) {
  const auto found = identify_tokenizer(options_of("NullTokenizer"),
                                        *megatron::parse_megatron_version("core_v0.6.0"));
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().message(),
            "`tokenizer_type` NullTokenizer: revision core_v0.6.0 of Megatron-LM does not build "
            "index caches with it");
}

TEST(IdentifyTokenizer, NamesUnknownTypes) {
  const megatron::MegatronVersion version = megatron::newest_megatron_version();
  const Status unknown = identify_tokenizer(options_of("GPT2BPE"), version).status();
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.message(), testing::HasSubstr("found \"GPT2BPE\""));
}

}  // namespace
}  // namespace meg::tokenizer
