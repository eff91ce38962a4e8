#include "libmeg/checkpoint/container/json/json_object.h"

#include <fmt/format.h>

namespace meg::checkpoint {

Result<simdjson::dom::object> parse_json_object(simdjson::dom::parser* parser,
                                                std::string_view text, const std::string& name) {
  simdjson::dom::element root;
  // simdjson copies what it parses, as it reads some bytes beyond the end.
  const simdjson::error_code error = parser->parse(text.data(), text.size()).get(root);
  if (error == simdjson::MEMALLOC) {
    return make_error(StatusCode::kResourceExhausted, "{}: no memory for {} bytes of JSON", name,
                      text.size());
  }
  if (error != simdjson::SUCCESS) {
    return make_error(StatusCode::kCorruption, "{}: expected JSON, found: {}", name,
                      simdjson::error_message(error));
  }
  simdjson::dom::object object;
  if (root.get(object) == simdjson::SUCCESS) return object;
  return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found {}", name,
                    json_value_text(root));
}

std::string json_value_text(const simdjson::dom::element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return text::printable(value.get_string().value_unsafe());
    // A number as it was parsed: few digits, however many the file has.
    default:
      return simdjson::to_string(value);
  }
}

}  // namespace meg::checkpoint
