#include "libmeg/serving/text_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace meg::serving {
namespace {

using ::testing::HasSubstr;

TextRequest read(const std::string& body, const RequestRules& rules = {}) {
  Result<TextRequest> request = read_text_request(body, rules);
  EXPECT_TRUE(request.has_value()) << request.error().message();
  return request.has_value() ? std::move(*request) : TextRequest();
}

std::string error_of(const std::string& body, const RequestRules& rules = {}) {
  const Result<TextRequest> request = read_text_request(body, rules);
  EXPECT_FALSE(request.has_value()) << body;
  if (request.has_value()) return "";
  EXPECT_EQ(request.error().code(), StatusCode::kInvalidArgument);
  return request.error().message();
}

TEST(TextRequestTest, MissingFieldsHaveMegatronsDefaults) {
  const TextRequest request = read(R"({"prompts": ["Hello"]})");
  EXPECT_THAT(request.prompts, testing::ElementsAre("Hello"));
  EXPECT_EQ(request.tokens_to_generate, 64);
  EXPECT_FALSE(request.logprobs);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.top_p, 0);
  EXPECT_FALSE(request.random_seed.has_value());
  EXPECT_TRUE(request.stop.on_eod);
  EXPECT_FALSE(request.stop.on_eol);
  EXPECT_FALSE(request.stop.on_double_eol);
  EXPECT_FALSE(request.add_BOS);
  EXPECT_FALSE(request.no_log);
  EXPECT_FALSE(request.prevent_newline_after_colon);
  EXPECT_FALSE(request.beam.has_value());
}

TEST(TextRequestTest, EveryKeyIsRead) {
  const TextRequest request = read(
      R"({"prompts": ["a", ""], "tokens_to_generate": 5, "logprobs": true, "temperature": 0.5,
          "top_p": 0.75, "top_p_decay": 0.9, "top_p_bound": 0.25, "add_BOS": true,
          "stop_on_double_eol": true, "stop_on_eol": true, "prevent_newline_after_colon": true,
          "random_seed": 9223372036854775807, "no_log": true})");
  EXPECT_EQ(request.tokens_to_generate, 5);
  EXPECT_TRUE(request.logprobs);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.75);
  EXPECT_EQ(request.sampling.top_p_decay, 0.9);
  EXPECT_EQ(request.sampling.top_p_bound, 0.25);
  EXPECT_TRUE(request.add_BOS);
  EXPECT_TRUE(request.stop.on_double_eol);
  EXPECT_TRUE(request.stop.on_eol);
  EXPECT_TRUE(request.prevent_newline_after_colon);
  EXPECT_EQ(request.random_seed, 9223372036854775807u);
  EXPECT_TRUE(request.no_log);
}

TEST(TextRequestTest, ABeamSearchHasItsOwnKeys) {
  const TextRequest request =
      read(R"({"prompts": ["a"], "beam_width": 4, "stop_token": 7, "length_penalty": 0.5})");
  ASSERT_TRUE(request.beam.has_value());
  EXPECT_EQ(request.beam->beam_width, 4);
  EXPECT_EQ(request.beam->stop_token, 7);
  EXPECT_EQ(request.beam->length_penalty, 0.5);
}

TEST(TextRequestTest, TheServersSamplingHoldsWhereTheRequestSaysNothing) {
  RequestRules rules;
  rules.sampling.temperature = 0.5;
  rules.sampling.top_k = 10;
  EXPECT_EQ(read(R"({"prompts": ["a"]})", rules).sampling.top_k, 10);
  EXPECT_EQ(read(R"({"prompts": ["a"], "top_k": 1})", rules).sampling.top_k, 1);
  const TextRequest other = read(R"({"prompts": ["a"], "top_p": 0.5})", rules);
  EXPECT_EQ(other.sampling.top_k, 0) << "top_p of a request must put the server's top_k out of use";
  EXPECT_EQ(other.sampling.top_p, 0.5);
  EXPECT_EQ(other.sampling.temperature, 0.5);
}

TEST(TextRequestTest, TheServersLimitOnTokensHolds) {
  RequestRules rules;
  rules.max_tokens_to_generate = 32;
  EXPECT_EQ(read(R"({"prompts": ["a"]})", rules).tokens_to_generate, 32);
  EXPECT_THAT(error_of(R"({"prompts": ["a"], "tokens_to_generate": 33})", rules),
              HasSubstr("at most 32"));
}

TEST(TextRequestTest, TheLastOfTwoEqualKeysCounts) {
  EXPECT_EQ(read(R"({"prompts": ["a"], "top_k": 1, "top_k": 2})").sampling.top_k, 2);
}

TEST(TextRequestTest, NamesAndValuesAreCutInMessages) {
  const std::string longest(10000, 'x');
  EXPECT_LT(error_of("{\"" + longest + "\": 1, \"prompts\": [\"a\"]}").size(), 200u);
  EXPECT_LT(error_of("{\"prompts\": \"" + longest + "\"}").size(), 200u);
}

}  // namespace
}  // namespace meg::serving
