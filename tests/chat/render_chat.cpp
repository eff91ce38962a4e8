// Renders chat templates: a JSON object {"template", "variables"} a line in, {"text", "generated"}
// or {"error"} a line out. With "continue": up to the end of the last message, {"text"}.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "libmeg/chat/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;

Json rendered(const Json& asked) {
  const auto made = meg::chat::ChatTemplate::parse(asked["template"].get<std::string>());
  if (!made.has_value()) return {{"error", made.error().message()}};
  if (asked.value("continue", false)) {
    const auto text = made->render_to_continue(asked["variables"]);
    return text.has_value() ? Json{{"text", *text}} : Json{{"error", text.error().message()}};
  }
  const auto chat = made->render(asked["variables"]);
  if (!chat.has_value()) return {{"error", chat.error().message()}};
  return {{"text", chat->text}, {"generated", chat->generated}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << rendered(Json::parse(line)).dump() << std::endl;
  }
}
