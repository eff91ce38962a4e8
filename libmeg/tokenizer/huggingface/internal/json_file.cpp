#include "libmeg/tokenizer/huggingface/internal/json_file.h"

#include "libmeg/tokenizer/internal/text_file.h"

namespace meg::tokenizer {

Result<JsonFile> JsonFile::open(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, open_tokenizer_file(path));
  return parse(file.text(), path);
}

Result<JsonFile> JsonFile::parse(std::string_view json, const std::string& name) {
  json = without_byte_order_mark(json);
  MEG_RETURN_IF_ERROR(reject_empty_or_html(json, name, "a JSON object"));
  JsonFile file;
  file.name_ = name;
  if (const auto error = file.parser_->parse(json.data(), json.size()).get(file.root_)) {
    return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found invalid JSON: {}",
                      name, simdjson::error_message(error));
  }
  if (file.root_.is_object()) return file;
  return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found another value",
                    name);
}

}  // namespace meg::tokenizer
