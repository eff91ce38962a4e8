#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/json/internal/json_part.h"

namespace meg::tokenizer {

/// A JSON file whose root is an object.
class JsonFile {
 public:
  /// kCorruption if it is not a JSON object; otherwise the errors of opening the file.
  static Result<JsonFile> open(const std::string& path);

  /// The same from the file's content.
  static Result<JsonFile> parse(std::string_view json, const std::string& name);

  JsonPart root() const { return {root_, name_}; }

 private:
  std::shared_ptr<simdjson::dom::parser> parser_ = std::make_shared<simdjson::dom::parser>();
  simdjson::dom::element root_;
  std::string name_;
};

}  // namespace meg::tokenizer
