#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// A value in a tokenizer's JSON file with its place, for errors: every function below returns
/// kCorruption if a value is missing or of another type. The parser that read the file must outlive
/// it.
class JsonPart {
 public:
  JsonPart(simdjson::dom::element value, std::string place)
      : JsonPart(value, Place{std::move(place)}) {}

  std::string place() const { return place_.text(); }

  /// For readers that need no places.
  simdjson::dom::element value() const { return value_; }

  /// The text of the JSON.
  std::string json() const { return simdjson::minify(value_); }

  bool is_text() const { return value_.is_string(); }

  bool is_list() const { return value_.is_array(); }

  bool is_object() const { return value_.is_object(); }

  /// A member; nullopt if it is missing or null.
  std::optional<JsonPart> find(std::string_view key) const;

  Result<JsonPart> member(std::string_view key) const;

  /// Every member, by name.
  Result<std::vector<std::pair<std::string, JsonPart>>> members() const;

  Result<std::vector<JsonPart>> items() const;

  Result<std::string_view> text() const;  ///< Valid as long as the parser.
  Result<bool> boolean() const;
  Result<int64_t> integer() const;
  Result<double> number() const;

  /// The value of a member, or `missing` if it is missing or null.
  Result<std::string> text(std::string_view key, std::string missing) const;
  Result<bool> boolean(std::string_view key, bool missing) const;

  /// "type" of an object.
  Result<std::string_view> type() const;

  /// kUnsupported naming the first member that is not null and none of these.
  Status allow_only(std::initializer_list<std::string_view> keys) const;

  /// kUnsupported: what libmeg has no code for.
  Status unsupported(std::string_view what) const;

  Status corrupt(std::string_view expected) const;

 private:
  /// Its text is made where one is needed: vocabularies and merges have hundreds of thousands.
  struct Place {
    static constexpr size_t kMember = SIZE_MAX;

    std::string name;                           // the file's, or a member's
    std::shared_ptr<const Place> in = nullptr;  // the object or list; not of a file
    size_t item = kMember;                      // of a list

    std::string text() const;
  };

  JsonPart(simdjson::dom::element value, Place place) : value_(value), place_(std::move(place)) {}

  simdjson::dom::element value_;
  Place place_;
};

}  // namespace meg::tokenizer
