#include "libmeg/tokenizer/json/internal/json_part.h"

#include <algorithm>

#include "libmeg/text/printable.h"

// A value of a JSON file with its path in it, so that every error says where it is
// ("tokenizer.json.model.vocab").

namespace meg::tokenizer {

std::string JsonPart::Place::text() const {
  if (in == nullptr) return name;
  return item == kMember ? fmt::format("{}.{}", in->text(), text::printable_name(name))
                         : fmt::format("{}[{}]", in->text(), item);
}

std::optional<JsonPart> JsonPart::find(std::string_view key) const {
  simdjson::dom::element found;
  if (!value_.is_object() || value_[key].get(found) != simdjson::SUCCESS) return std::nullopt;
  // null and absent are the same in these files.
  if (found.is_null()) return std::nullopt;
  return JsonPart(found, Place{std::string(key), std::make_shared<const Place>(place_)});
}

Result<JsonPart> JsonPart::member(std::string_view key) const {
  std::optional<JsonPart> found = find(key);
  if (found) return *std::move(found);
  return make_error(StatusCode::kCorruption, "{}: expected {}, found none", place(),
                    text::printable(key));
}

Result<std::vector<std::pair<std::string, JsonPart>>> JsonPart::members() const {
  simdjson::dom::object object;
  if (value_.get(object) != simdjson::SUCCESS) return corrupt("an object");
  const auto place = std::make_shared<const Place>(place_);
  std::vector<std::pair<std::string, JsonPart>> all;
  for (const auto field : object) {
    std::string key(field.key);
    all.emplace_back(key, JsonPart(field.value, Place{key, place}));
  }
  return all;
}

Result<std::vector<JsonPart>> JsonPart::items() const {
  simdjson::dom::array list;
  if (value_.get(list) != simdjson::SUCCESS) return corrupt("a list");
  const auto place = std::make_shared<const Place>(place_);
  std::vector<JsonPart> all;
  all.reserve(list.size());
  for (const simdjson::dom::element item : list) {
    all.push_back({item, Place{{}, place, all.size()}});
  }
  return all;
}

Result<std::string_view> JsonPart::text() const {
  std::string_view value;
  if (value_.get(value) != simdjson::SUCCESS) return corrupt("a string");
  return value;
}

Result<bool> JsonPart::boolean() const {
  bool value = false;
  if (value_.get(value) != simdjson::SUCCESS) return corrupt("true or false");
  return value;
}

Result<int64_t> JsonPart::integer() const {
  int64_t value = 0;
  if (value_.get(value) != simdjson::SUCCESS) return corrupt("an integer");
  return value;
}

Result<double> JsonPart::number() const {
  double value = 0;
  if (value_.get(value) != simdjson::SUCCESS) return corrupt("a number");
  return value;
}

Result<std::string> JsonPart::text(std::string_view key, std::string missing) const {
  const std::optional<JsonPart> part = find(key);
  if (!part) return missing;
  MEG_ASSIGN_OR_RETURN(const std::string_view value, part->text());
  return std::string(value);
}

Result<bool> JsonPart::boolean(std::string_view key, bool missing) const {
  const std::optional<JsonPart> part = find(key);
  return part ? part->boolean() : missing;
}

Result<std::string_view> JsonPart::type() const {
  MEG_ASSIGN_OR_RETURN(const JsonPart part, member("type"));
  return part.text();
}

Status JsonPart::allow_only(std::initializer_list<std::string_view> keys) const {
  // A key that is not known may change how texts are tokenized, so it is refused by name, unless it
  // is null.
  MEG_ASSIGN_OR_RETURN(const auto all, members());
  for (const auto& [name, part] : all) {
    if (part.value_.is_null() || std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    return part.unsupported(text::printable(part.json().substr(0, 60)));
  }
  return {};
}

Status JsonPart::unsupported(std::string_view what) const {
  return make_error(StatusCode::kUnsupported, "{}: {} is not supported", place(), what);
}

Status JsonPart::corrupt(std::string_view expected) const {
  return make_error(StatusCode::kCorruption, "{}: expected {}, found {}", place(), expected,
                    text::printable(json().substr(0, 60)));
}

}  // namespace meg::tokenizer
