#include "libmeg/serving/internal/json_fields.h"

#include <fmt/format.h>

#include <utility>

#include "libmeg/text/json/python_json.h"
#include "libmeg/text/nearest_name.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"

namespace meg::serving {
namespace {

using nlohmann::json;

/// Longer names and values are cut in messages.
constexpr size_t kShown = 60;

Status wrong(std::string_view key, std::string_view expected, const json& found) {
  return make_error(StatusCode::kInvalidArgument, "{} must be {}, found {}", key, expected,
                    JsonFields::describe(found));
}

/// Whether brackets stand inside each other too often: nlohmann's json copies values by recursion.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '[' || c == '{') {
      if (++depth > text::kMaxJsonNesting) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string range_text(int64_t min, int64_t max) {
  if (max == std::numeric_limits<int64_t>::max()) {
    return fmt::format("an integer greater than or equal to {}", min);
  }
  return fmt::format("an integer from {} to {}", min, max);
}

}  // namespace

Result<JsonFields> JsonFields::parse(std::string_view text) {
  // nlohmann's parser refuses it as well, but says less.
  if (const size_t at = text::find_invalid_utf8(text); at != std::string_view::npos) {
    return make_error(StatusCode::kInvalidArgument, "the request is not UTF-8: byte {} is {}", at,
                      text::printable(text.substr(at, 1)));
  }
  if (is_too_deep(text)) {
    return refuse("the request has more than {} values inside each other", text::kMaxJsonNesting);
  }
  JsonFields fields;
  try {
    fields.object_ = json::parse(text);
  } catch (const json::parse_error& error) {
    if (error.byte > text.size()) {
      return make_error(StatusCode::kInvalidArgument,
                        "the request is not JSON: it ends at byte {}, before its value does",
                        text.size());
    }
    return make_error(StatusCode::kInvalidArgument,
                      "the request is not JSON: byte {} of {} is wrong", error.byte, text.size());
    // The parser's only other error: a number like 1e400.
  } catch (const json::exception&) {
    return make_error(StatusCode::kInvalidArgument,
                      "the request has a number that is too large for a double");
  }
  if (!fields.object_.is_object()) {
    return make_error(StatusCode::kInvalidArgument, "the request must be a JSON object, found {}",
                      describe(fields.object_));
  }
  return fields;
}

void JsonFields::drop_nulls() {
  for (auto field = object_.begin(); field != object_.end();) {
    field = field->is_null() ? object_.erase(field) : std::next(field);
  }
}

Status JsonFields::only_known(std::span<const std::string_view> known) const {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::optional<size_t> nearest = text::nearest_name(key, known);
    return make_error(StatusCode::kInvalidArgument, "{} is not a key of this request{}",
                      text::printable(key, kShown),
                      nearest ? fmt::format(": did you mean {}?", known[*nearest]) : "");
  }
  return {};
}

Status JsonFields::read(std::string_view key, bool* value) const {
  const json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_boolean()) return wrong(key, "true or false", *found);
  *value = found->get<bool>();
  return {};
}

Status JsonFields::read(std::string_view key, int64_t* value, int64_t min, int64_t max) const {
  const json* found = find(key);
  if (found == nullptr) return {};
  // Numbers above 2^63 are unsigned in nlohmann's json, and get<int64_t>() would wrap them round.
  const bool fits = found->is_number_integer() &&
                    !(found->is_number_unsigned() &&
                      found->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits || found->get<int64_t>() < min || found->get<int64_t>() > max) {
    return wrong(key, range_text(min, max), *found);
  }
  *value = found->get<int64_t>();
  return {};
}

Status JsonFields::read(std::string_view key, double* value) const {
  const json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_number()) return wrong(key, "a number", *found);
  *value = found->get<double>();
  return {};
}

Status JsonFields::read(std::string_view key, std::string* value) const {
  const json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_string()) return wrong(key, "a string", *found);
  *value = found->get<std::string>();
  return {};
}

const json* JsonFields::find(std::string_view key) const {
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

std::string JsonFields::describe(const json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return text::printable(value.get_ref<const std::string&>(), kShown);
  return value.dump();
}

Result<std::vector<int32_t>> read_ids(const json& list, std::string_view key, int64_t vocab_size) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const json& id : list) {
    // is_number_unsigned() is true of what was written without a sign.
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab_size)) {
      return refuse("{} must have ids from 0 to {}, found {} at {}", key, vocab_size - 1,
                    JsonFields::describe(id), ids.size());
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace meg::serving
