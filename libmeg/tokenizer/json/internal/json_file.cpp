#include "libmeg/tokenizer/json/internal/json_file.h"

#include <algorithm>
#include <array>
#include <string>

#include "libmeg/tokenizer/json/internal/text_file.h"

namespace meg::tokenizer {
namespace {

/// The text of Python's json as simdjson reads it. Integers that 64 bits may not hold, such as the
/// 1000000000000000019884624838656 of model_max_length, have an exponent: they are floats. NaN and
/// Infinity, such as Mamba's time_step_limit, are null.
std::string as_strict_json(std::string_view json) {
  constexpr size_t kSafeDigits = 18;
  std::string changed;
  bool in_string = false;
  size_t digits = 0;  // in a row, outside strings
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    const bool is_digit = !in_string && c >= '0' && c <= '9';
    if (digits > kSafeDigits && !is_digit && c != '.' && c != 'e' && c != 'E') changed += "e0";
    digits = is_digit ? digits + 1 : 0;
    if (!in_string && (c == 'N' || c == 'I' || c == '-')) {
      constexpr std::array<std::string_view, 3> kNoNumbers = {"NaN", "Infinity", "-Infinity"};
      const auto* const found =
          std::find_if(kNoNumbers.begin(), kNoNumbers.end(),
                       [&](std::string_view name) { return json.substr(at).starts_with(name); });
      if (found != kNoNumbers.end()) {
        changed += "null";
        at += found->size() - 1;
        continue;
      }
    }
    changed.push_back(c);
    if (in_string && c == '\\' && at + 1 < json.size()) changed.push_back(json[++at]);
    if (c == '"') in_string = !in_string;
  }
  return changed;
}

}  // namespace

Result<JsonFile> JsonFile::open(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, open_tokenizer_file(path));
  return parse(file.text(), path);
}

Result<JsonFile> JsonFile::parse(std::string_view json, const std::string& name) {
  json = without_byte_order_mark(json);
  MEG_RETURN_IF_ERROR(reject_empty_or_html(json, name, "a JSON object"));
  JsonFile file;
  file.name_ = name;
  auto error = file.parser_->parse(json.data(), json.size()).get(file.root_);
  if (error) error = file.parser_->parse(as_strict_json(json)).get(file.root_);
  if (error) {
    return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found invalid JSON: {}",
                      name, simdjson::error_message(error));
  }
  if (file.root_.is_object()) return file;
  return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found another value",
                    name);
}

}  // namespace meg::tokenizer
