// Any bytes as a chat template: an error of one line, or a text, within the limits.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "libmeg/chat/chat_template.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Json = nlohmann::ordered_json;
  static const Json variables = {
      {"messages",
       {{{"role", "user"}, {"content", "Wie hei\xc3\x9ft du?\n"}},
        {{"role", "assistant"},
         {"content", ""},
         {"tool_calls", {{{"name", "f"}, {"arguments", {{"a", 1.5}}}}}}}}},
      {"add_generation_prompt", true},
      {"numbers", {3, -1, 2}}};
  const auto made = meg::chat::ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
  if (!made.has_value()) {
    MEG_FUZZ_CHECK(made.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const auto chat = made->render(variables);
  if (!chat.has_value()) {
    MEG_FUZZ_CHECK(chat.error().message().find('\n') == std::string::npos);
    return 0;
  }
  for (const auto& [begin, end] : chat->generated) {
    MEG_FUZZ_CHECK(begin <= end && end <= chat->text.size());
  }
  return 0;
}
