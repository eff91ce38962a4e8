#include "tools/common/resume_identity.h"

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

Identity flag_identity(const Flags& flags) {
  constexpr std::array<std::string_view, 5> kIdle = {"--workers", "--log-interval", "--json",
                                                     "--report", "--resume"};
  Identity identity;
  const std::string settings = flags.settings();
  std::string_view rest = settings;
  rest.remove_prefix(rest.find('\n') + 1);  // The program's version.
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::string_view name = line.substr(0, line.find(' '));
    if (std::find(kIdle.begin(), kIdle.end(), name) != kIdle.end()) continue;
    identity.emplace_back(name, line.substr(std::min(line.size(), name.size() + 1)));
  }
  return identity;
}

Status add_file_identities(const std::string& path, Identity& identity) {
  for (const std::string& file : model_files(path)) {
    MEG_ASSIGN_OR_RETURN(const io::MappedFile content, io::MappedFile::open(file));
    io::Digest digest;
    digest.add(content.bytes());
    identity.emplace_back("content of " + file, digest.hex());
  }
  return Status();
}

Result<Identity> tokenizer_identity(const megatron::ArgumentValues& args) {
  Identity identity;
  for (const std::string& field : tokenizer_fields()) {
    const std::optional<megatron::FieldValue> value = args.field(field);
    if (!value.has_value()) continue;
    identity.emplace_back(field, identity_text(*value));
    const auto* const path = std::get_if<std::string>(&*value);
    if (path != nullptr) MEG_RETURN_IF_ERROR(add_file_identities(*path, identity));
  }
  return identity;
}

Identity tokenizer_settings(const megatron::ArgumentValues& args) {
  Identity settings;
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
