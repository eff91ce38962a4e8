#include "libmeg/packing/builtin_templates.h"

#include <array>
#include <utility>

namespace meg::packing {
namespace {

/// None of them has a form for tools, which it would leave out silently.
constexpr std::string_view kNoTools =
    R"({% for message in messages %}{% if message['tool_calls'] or message['function_call'] %})"
    R"({{ raise_exception('message ' ~ loop.index0 ~ ': this template has no form for tool calls') }})"
    R"({% endif %}{% if message['content'] is not string %}{{ raise_exception('message ' ~ )"
    R"(loop.index0 ~ ': this template takes a text as content, no list of parts') }}{% endif %})"
    R"({% endfor %}{% if tools or documents %}{{ raise_exception('this template has no form for )"
    R"(tools and documents') }}{% endif %})";

constexpr std::string_view kChatMl =
    R"({% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }})"
    R"({% if message['role'] == 'assistant' %})"
    R"({% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }})"
    R"({% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %})"
    R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

constexpr std::string_view kLlama3 =
    R"({{ '<|begin_of_text|>' }}{% for message in messages %})"
    R"({{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }})"
    R"({% if message['role'] == 'assistant' %})"
    R"({% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %})"
    R"({% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %})"
    R"({% if add_generation_prompt %})"
    R"({{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";

// The system message belongs to the first user message, as in Mistral's own.
constexpr std::string_view kMistral =
    R"({% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] + '\n\n' %})"
    R"({% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %})"
    R"({% endif %}{{ '<s>' }}{% for message in rest %}{% if message['role'] == 'user' %})"
    R"({{ '[INST] ' + (system if loop.first else '') + message['content'] + ' [/INST]' }})"
    R"({% elif message['role'] == 'assistant' %})"
    R"({% generation %}{{ ' ' + message['content'] | trim + '</s>' }}{% endgeneration %})"
    R"({% else %}{{ raise_exception('expected user and assistant after a system message, found ' )"
    R"(+ message['role']) }}{% endif %}{% endfor %})";

// The texts of Megatron-LM megatron/core/tokenizers/text/libraries/sft_tokenizer.py.
constexpr std::string_view kNemotronHAligned =
    R"({% for message in messages %}{% set content = message['content'].strip() %})"
    R"({% if message['role'] == 'system' %}{{ '<SPECIAL_10>System\n' + content + '\n' }})"
    R"({% elif message['role'] == 'user' %})"
    R"({{ '<SPECIAL_11>User\n' + content + '\n<SPECIAL_11>Assistant\n' }})"
    R"({% elif message['role'] == 'assistant' %})"
    R"({% generation %}{{ content + '\n' }}{% endgeneration %}{% else %}{{ raise_exception()"
    R"('expected system, user and assistant, found ' + message['role']) }}{% endif %}{% endfor %})";

constexpr std::string_view kNemotronNanoV2 =
    R"({% for message in messages %}{% set content = message['content'] %})"
    R"({% if message['role'] == 'system' %}{{ '<SPECIAL_10>System\n' + )"
    R"(content.replace('/think', '').replace('/no_think', '').strip() + '\n' }})"
    R"({% elif message['role'] == 'user' %}{{ '<SPECIAL_11>User\n' + )"
    R"(content.replace('/think', '').replace('/no_think', '').strip() + '\n' }})"
    R"({% elif message['role'] == 'assistant' %}{{ '<SPECIAL_11>Assistant\n' }})"
    R"({% generation %}{{ content.strip() + '\n<SPECIAL_12>\n' }}{% endgeneration %})"
    R"({% else %}{{ raise_exception('expected system, user and assistant, found ' )"
    R"(+ message['role']) }}{% endif %}{% endfor %}{% if add_generation_prompt %})"
    R"({{ '<SPECIAL_11>Assistant\n' }}{% endif %})";

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTemplates = {
    {{"chatml", kChatMl},
     {"llama3", kLlama3},
     {"mistral", kMistral},
     {"nemotron-h-aligned", kNemotronHAligned},
     {"nemotron-nano-v2", kNemotronNanoV2}}};

}  // namespace

std::vector<std::string> builtin_template_names() {
  std::vector<std::string> names;
  for (const auto& [name, source] : kTemplates) names.emplace_back(name);
  return names;
}

Result<chat::ChatTemplate> builtin_template(std::string_view name) {
  for (const auto& [known, source] : kTemplates) {
    if (known == name) return chat::ChatTemplate::parse(std::string(kNoTools).append(source));
  }
  return make_error(StatusCode::kNotFound, "no built-in chat template is named {}", name);
}

}  // namespace meg::packing
