#include "libmeg/tokenizer/huggingface/internal/json_file.h"

#include <string>

#include "libmeg/tokenizer/internal/text_file.h"

namespace meg::tokenizer {
namespace {

/// With an exponent behind integers that 64 bits may not hold, such as the
/// 1000000000000000019884624838656 of model_max_length: simdjson reads them as floats only.
std::string with_long_integers_as_floats(std::string_view json) {
  constexpr size_t kSafeDigits = 18;
  std::string changed;
  bool in_string = false;
  size_t digits = 0;  // in a row, outside strings
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    const bool is_digit = !in_string && c >= '0' && c <= '9';
    if (digits > kSafeDigits && !is_digit && c != '.' && c != 'e' && c != 'E') changed += "e0";
    digits = is_digit ? digits + 1 : 0;
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
  if (error == simdjson::NUMBER_ERROR) {
    error = file.parser_->parse(with_long_integers_as_floats(json)).get(file.root_);
  }
  if (error) {
    return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found invalid JSON: {}",
                      name, simdjson::error_message(error));
  }
  if (file.root_.is_object()) return file;
  return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found another value",
                    name);
}

}  // namespace meg::tokenizer
