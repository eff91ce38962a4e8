#include "tools/preprocess_data/resume_identity.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <variant>

#include "libmeg/io/digest.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/megatron/field_value.h"
#include "libmeg/text/printable.h"
#include "tools/common/flag_groups/tokenizer_flags.h"

namespace meg::tools {
namespace {

namespace fs = std::filesystem;

/// A value as text; different values differ.
std::string identity_text(const megatron::FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const auto* words = std::get_if<std::vector<std::string>>(&value);
  if (words == nullptr) return megatron::field_text(value);
  std::string all;
  for (const std::string& word : *words) {
    all += text::printable(word, std::numeric_limits<size_t>::max()) + " ";
  }
  return all;
}

/// The files that a tokenizer or sentence model may be made of: `path` itself, or those of a folder
/// by their names.
std::vector<std::string> model_files(const std::string& path) {
  constexpr std::array<std::string_view, 5> kEndings = {".json", ".txt", ".model", ".tiktoken",
                                                        ".tab"};
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    const bool is_read = std::find(kEndings.begin(), kEndings.end(),
                                   entry.path().extension().string()) != kEndings.end();
    if (is_read && entry.is_regular_file(ignored)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// What the tokenizer reads of Megatron's arguments.
std::vector<std::string> tokenizer_fields() {
  return megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
    megatron::FieldReader reader(lookup);
    tokenizer::TokenizerOptions ignored;
    ignored.take_fields(reader);
  });
}

}  // namespace

Status add_file_identities(const std::string& path,
                           std::vector<std::pair<std::string, std::string>>& identity) {
  for (const std::string& file : model_files(path)) {
    MEG_ASSIGN_OR_RETURN(const io::MappedFile content, io::MappedFile::open(file));
    io::Digest digest;
    digest.add(content.bytes());
    identity.emplace_back("content of " + file, digest.hex());
  }
  return Status();
}

Result<std::vector<std::pair<std::string, std::string>>> tokenizer_identity(
    const megatron::ArgumentValues& args) {
  std::vector<std::pair<std::string, std::string>> identity;
  for (const std::string& field : tokenizer_fields()) {
    const std::optional<megatron::FieldValue> value = args.field(field);
    if (!value.has_value()) continue;
    identity.emplace_back(field, identity_text(*value));
    const auto* const path = std::get_if<std::string>(&*value);
    if (path != nullptr) MEG_RETURN_IF_ERROR(add_file_identities(*path, identity));
  }
  return identity;
}

std::vector<std::pair<std::string, std::string>> tokenizer_settings(
    const megatron::ArgumentValues& args) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& field : tokenizer_fields()) {
    const std::optional<megatron::FieldValue> value = args.field(field);
    const auto* const path = value.has_value() ? std::get_if<std::string>(&*value) : nullptr;
    std::error_code ignored;
    if (!value.has_value() || (path != nullptr && fs::exists(*path, ignored))) continue;
    settings.emplace_back(field, identity_text(*value));
  }
  return settings;
}

}  // namespace meg::tools
