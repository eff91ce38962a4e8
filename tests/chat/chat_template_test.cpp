#include "libmeg/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/temp_folder.h"

namespace meg::chat {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

/// What a template makes of variables, or its error.
std::string rendered(const std::string& source, const Json& variables = Json::object()) {
  const Result<ChatTemplate> made = ChatTemplate::parse(source);
  if (!made.has_value()) return "error: " + made.error().message();
  const Result<RenderedChat> chat = made->render(variables);
  return chat.has_value() ? chat->text : "error: " + chat.error().message();
}

StatusCode code_of(const std::string& source) {
  const Result<ChatTemplate> made = ChatTemplate::parse(source);
  return made.has_value() ? made->render(Json::object()).status().code() : made.error().code();
}

std::string repeated(const std::string& text, int times) {
  std::string made;
  for (int i = 0; i < times; ++i) made += text;
  return made;
}

TEST(ChatTemplateTest, NamesTheLineAndReason) {
  EXPECT_EQ(rendered("a\n{{ x.y }}"), "error: line 2: 'x' is undefined");
  EXPECT_EQ(rendered("\n\n{% if true %}"),
            "error: line 3: expected {% endif %}, found the end of the template");
  EXPECT_EQ(rendered("{{ raise_exception('roles\nmust') }}"), "error: line 1: \"roles\\nmust\"");
  EXPECT_EQ(rendered("{% include 'x' %}"), "error: line 1: \"include\" is not supported");
  EXPECT_EQ(rendered("{{ {}.a.b }}"), "error: line 1: 'dict object' has no attribute 'a'");
}

TEST(ChatTemplateTest, EndlessTemplatesEnd) {
  constexpr StatusCode kLimit = StatusCode::kResourceExhausted;
  EXPECT_EQ(
      code_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
      kLimit);
  EXPECT_EQ(code_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), kLimit);
  EXPECT_EQ(code_of("{% set ns = namespace(t='x') %}{% for a in range(99) %}{% set ns.t = ns.t ~ "
                    "ns.t %}{% endfor %}"),
            kLimit);
  EXPECT_EQ(code_of("{% set ns = namespace(t=[1]) %}{% for a in range(99) %}{% set ns.t = ns.t + "
                    "ns.t %}{% endfor %}"),
            kLimit);
  EXPECT_EQ(code_of("{{ 'x' * 1000000000000 }}"), kLimit);
  EXPECT_EQ(code_of("{{ [1] * 1000000000000 }}"), kLimit);
  EXPECT_EQ(code_of("{{ range(100001) }}"), kLimit);
  EXPECT_EQ(code_of("{% for a in range(99999) %}{{ 'x' * 10000 }}{% endfor %}"), kLimit);
}

TEST(ChatTemplateTest, DeepTemplatesAreRefused) {
  for (const std::string& source :
       {repeated("{{ (", 1) + repeated("(", 100000), "{{ " + repeated("not ", 100000) + "1 }}",
        "{{ " + repeated("-", 100000) + "1 }}", "{{ 1" + repeated(" + 1", 100000) + " }}",
        "{{ a" + repeated(".a", 100000) + " }}", "{{ a" + repeated(" | e", 100000) + " }}",
        "{{ a" + repeated(" if a", 100000) + " }}", "{{ " + repeated("[", 100000),
        "{{ a" + repeated("(", 100000), repeated("{% if a %}", 50000),
        "{% if a %}" + repeated("{% elif a %}", 50000) + "{% endif %}",
        "{{ a" + repeated(" is b", 100000) + " }}", "{% set " + repeated("(", 100000),
        "{{ a" + repeated(" and a", 100000) + " }}"}) {
    EXPECT_EQ(code_of(source), StatusCode::kInvalidArgument) << source.substr(0, 30);
  }
}

TEST(ChatTemplateTest, BrokenSourcesAreRefused) {
  EXPECT_EQ(rendered("{{ '\xff' }}"), "error: byte 4: expected UTF-8");
  EXPECT_THAT(rendered(std::string((1 << 20) + 1, 'x')),
              HasSubstr("expected at most 1048576 bytes"));
  EXPECT_EQ(rendered("x", Json::array()),
            "error: expected the variables of a template as an object");
  EXPECT_THAT(rendered("x", {{"n", 18446744073709551615ull}}), HasSubstr("64 bits"));
  EXPECT_EQ(rendered("{{ 99999999999999999999 }}"),
            "error: line 1: expected an integer of 64 bits, found \"99999999999999999999\"");
}

class ChatTemplateFolderTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    test::write_file(folder_.path(name), text);
  }

  std::string opened() {
    const Result<std::optional<ChatTemplate>> made = ChatTemplate::open(folder_.path());
    if (!made.has_value()) return made.error().message();
    if (!made->has_value()) return "none";
    return (*made)->render({{"messages", Json::array()}})->text;
  }

  test::TempFolder folder_;
};

TEST_F(ChatTemplateFolderTest, ReadsTheFolderOfATokenizer) {
  EXPECT_EQ(opened(), "none");
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(opened(), "none");
  write(
      "tokenizer_config.json",
      R"({"bos_token": {"content": "<s>"}, "eos_token": null, "chat_template": "{{ bos_token }}{{ tools is none }}"})");
  EXPECT_EQ(opened(), "<s>True");
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(opened(), "d");
  write("chat_template.jinja", "j{{ bos_token }}");
  EXPECT_EQ(opened(), "j");
  write("chat_template.jinja", "{{");
  EXPECT_THAT(opened(), HasSubstr("chat_template.jinja: chat_template: line 1: expected "));
}

TEST_F(ChatTemplateFolderTest, BrokenFilesAreNamed) {
  write("tokenizer_config.json", "{");
  EXPECT_THAT(opened(), HasSubstr("tokenizer_config.json: expected a JSON object"));
  write("tokenizer_config.json", R"({"chat_template": 1})");
  EXPECT_THAT(opened(), HasSubstr("expected chat_template to be a string or list"));
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"}]})");
  EXPECT_THAT(opened(), HasSubstr("expected a chat template named default"));
}

}  // namespace
}  // namespace meg::chat
