#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <unordered_set>

#include "libmeg/base/result.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {

/// The object that `text` is, by the JSON standard alone: UTF-8, no comments, no NaN, whole numbers
/// of 64 bits, 1024 levels. `name` starts errors (kCorruption). Valid until the parser's next use.
/// Memory: a small multiple of the text's size.
Result<simdjson::dom::object> parse_json_object(simdjson::dom::parser* parser,
                                                std::string_view text, const std::string& name);

/// "a list", "the text \"pt\"", "3": a value as an error message shows it.
std::string json_value_text(const simdjson::dom::element& value);

/// Calls visit(key, value) -> Status for each member, until one fails. kCorruption if a key occurs
/// twice; `name` starts that error.
template <class Visit>
Status for_each_member(const simdjson::dom::object& object, const std::string& name, Visit visit) {
  std::unordered_set<std::string_view> seen;
  for (const auto& [key, value] : object) {
    if (!seen.insert(key).second) {
      return make_error(StatusCode::kCorruption, "{}: {}: expected it once, found it twice", name,
                        text::printable(key, 200));
    }
    MEG_RETURN_IF_ERROR(visit(std::string_view(key), value));
  }
  return Status();
}

}  // namespace meg::checkpoint
