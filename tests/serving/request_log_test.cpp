#include "libmeg/serving/http/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/serving/internal/text_answer.h"

namespace meg::serving {
namespace {

TEST(RequestLogTest, ALineSaysWhoAskedForWhatAndHowItWent) {
  RequestLog request;
  request.client = "127.0.0.1:5";
  request.method = "PUT";
  request.path = "/api";
  request.status = 200;
  request.seconds = 0.8124;
  request.prompts = 2;
  request.prompt_tokens = 10;
  request.new_tokens = 64;
  request.first_prompt = "a \"quoted\"\nline";
  EXPECT_THAT(log_line(request),
              testing::MatchesRegex(R"(....-..-.. ..:..:.. 127\.0\.0\.1:5 PUT /api 200 812\.4 ms )"
                                    R"(prompts 2 tokens 10\+64 "a \\"quoted\\"\\nline")"));
}

TEST(RequestLogTest, WhatAClientChoseCannotBeginANewLine) {
  RequestLog request;
  request.method = "\x9f";
  request.path = "/a\nb\x1b[31m";
  EXPECT_THAT(log_line(request), testing::HasSubstr(R"("\x9f" "/a\nb\x1b[31m" 0)"));
}

TEST(RequestLogTest, ANoteEndsTheLine) {
  RequestLog request;
  request.note = "gpt/tiny: cut\nshort";
  EXPECT_THAT(log_line(request), testing::EndsWith(R"( 0.0 ms "gpt/tiny: cut\nshort")"));
  request.note = "gpt/tiny at main";
  EXPECT_THAT(log_line(request), testing::EndsWith(" 0.0 ms gpt/tiny at main"));
}

TEST(RequestLogTest, ARequestThatCouldNotBeReadHasNoMethod) {
  RequestLog request;
  request.client = "?";
  request.status = 400;
  EXPECT_THAT(log_line(request), testing::HasSubstr(" ? - 400 0.0 ms"));
}

TEST(ErrorAnswerTest, AnyBytesMakeJson) {
  EXPECT_EQ(error_answer("a \"b\" \xff"), "{\"message\":\"a \\\"b\\\" \\ufffd\"}\n");
}

}  // namespace
}  // namespace meg::serving
