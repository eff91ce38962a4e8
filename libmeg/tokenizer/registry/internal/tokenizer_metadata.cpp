#include "libmeg/tokenizer/registry/internal/tokenizer_metadata.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/json/internal/json_file.h"

namespace meg::tokenizer {
namespace {

/// Kinds of models and their classes, of all revisions.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kModelTypes = {
    {{"default", "default_tokenizer.DefaultTokenizerText"},
     {"default-text", "default_tokenizer.DefaultTokenizerText"},
     {"gpt", "gpt_tokenizer.GPTTokenizer"},
     {"mamba", "mamba_tokenizer.MambaTokenizer"},
     {"bert", "bert_tokenizer.BertTokenizer"},
     {"t5", "t5_tokenizer.T5Tokenizer"},
     {"retro", "retro_tokenizer.RetroTokenizer"}}};

}  // namespace

Result<TokenizerMetadata> read_tokenizer_metadata(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::open(path));
  const JsonPart root = file.root();
  TokenizerMetadata metadata;
  MEG_ASSIGN_OR_RETURN(const JsonPart library, root.member("library"));
  MEG_ASSIGN_OR_RETURN(const std::string_view library_name, library.text());
  metadata.library = library_name;
  for (const std::string_view key : {"tokenizer_class", "class_name", "class_path"}) {
    // A class of the user's own is Python code.
    if (const auto own = root.find(key)) return own->unsupported(text::printable(own->json()));
  }
  const std::optional<JsonPart> model_type = root.find("model_type");
  if (!model_type) return metadata;
  MEG_ASSIGN_OR_RETURN(const std::string_view name, model_type->text());
  const auto* const known = std::find_if(kModelTypes.begin(), kModelTypes.end(),
                                         [name](const auto& type) { return type.first == name; });
  if (known == kModelTypes.end()) return model_type->unsupported(text::printable(name));
  metadata.class_name = known->second;
  return metadata;
}

}  // namespace meg::tokenizer
