#include "tools/common/checkpoint_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/open_weights.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "libmeg/tokenizer/registry/tokenizer_of_folder.h"

namespace meg::tools {
namespace {

namespace fs = std::filesystem;

using checkpoint::MegatronCheckpoint;
using checkpoint::TokenizerFile;
using tokenizer::TokenizerOptions;

using Fields = std::map<std::string, megatron::FieldValue, std::less<>>;

/// The fields of a tokenizer's files.
constexpr std::string_view kFileFields[] = {"vocab_file", "merge_file", "tokenizer_model"};

/// The fields that TokenizerOptions reads.
std::vector<std::string> tokenizer_fields() {
  return megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
    megatron::FieldReader reader(lookup);
    TokenizerOptions().take_fields(reader);
  });
}

TokenizerOptions options_of(const megatron::FieldLookup& lookup) {
  megatron::FieldReader reader(lookup);
  TokenizerOptions options;
  options.take_fields(reader);
  return options;
}

TokenizerOptions options_of(const Fields& fields) {
  return options_of([&fields](std::string_view name) -> std::optional<megatron::FieldValue> {
    const auto found = fields.find(name);
    return found == fields.end() ? std::nullopt : std::optional(found->second);
  });
}

bool names_files(const TokenizerOptions& options) {
  return !options.vocab_file.empty() || !options.merge_file.empty() ||
         !options.tokenizer_model.empty();
}

/// Where the files of a checkpoint's tokenizer are.
class CarriedFiles {
 public:
  static Result<CarriedFiles> of(const MegatronCheckpoint& checkpoint) {
    CarriedFiles carried;
    MEG_ASSIGN_OR_RETURN(carried.files_, checkpoint::tokenizer_files(checkpoint.folder()));
    return carried;
  }

  const std::vector<TokenizerFile>& files() const { return files_; }

  /// The folder with all of them; empty where there are none.
  std::string folder() const {
    return files_.empty() ? "" : fs::path(files_.front().path).parent_path().string();
  }

  /// Empty where none has this name.
  std::string path_of(const std::string& name) const {
    for (const TokenizerFile& file : files_) {
      if (file.name == name) return file.path;
    }
    return "";
  }

  /// The file or folder that stands for what args call `recorded`, `recorded` itself where none
  /// does.
  std::string found(const std::string& recorded) const {
    const std::string own = path_of(fs::path(recorded).filename().string());
    if (!own.empty()) return own;
    return path_of("tokenizer.json").empty() ? recorded : folder();
  }

 private:
  std::vector<TokenizerFile> files_;
};

/// A checkpoint's tokenizer.
struct Found {
  Fields fields;       // Megatron's arguments of it; empty: the checkpoint says nothing of one
  std::string origin;  // of the fields, for messages
};

std::string first_file(const TokenizerOptions& options) {
  return options.tokenizer_model.empty() ? options.vocab_file : options.tokenizer_model;
}

std::string named(const TokenizerOptions& options) {
  const std::string file = first_file(options);
  return file.empty() ? options.tokenizer_type
                      : fmt::format("{} '{}'", options.tokenizer_type,
                                    text::printable_name(file, /*limit=*/200));
}

Result<Found> tokenizer_of_args(const MegatronCheckpoint& checkpoint, const CarriedFiles& carried,
                                const TokenizerOptions& recorded) {
  Found found{.fields = {}, .origin = "args of the checkpoint: " + named(recorded)};
  for (const std::string& field : tokenizer_fields()) {
    std::optional<megatron::FieldValue> value = checkpoint.described_arg(field);
    const bool is_useless = field == "vocab_size" && recorded.tokenizer_type != "NullTokenizer";
    if (!value.has_value() || std::holds_alternative<std::monostate>(*value) || is_useless) {
      continue;
    }
    found.fields.emplace(field, *std::move(value));
  }
  for (const std::string_view field : kFileFields) {
    const auto value = found.fields.find(field);
    if (value == found.fields.end()) continue;
    std::string* const file = std::get_if<std::string>(&value->second);
    if (file == nullptr || file->empty()) continue;
    *file = carried.found(*file);
    // Else a name on a hub would be looked for.
    std::error_code ignored;
    if (fs::exists(*file, ignored)) continue;
    return make_error(StatusCode::kNotFound, "{}: expected its files, found none", found.origin);
  }
  return found;
}

Result<Found> tokenizer_of(const MegatronCheckpoint& checkpoint) {
  MEG_ASSIGN_OR_RETURN(const CarriedFiles carried, CarriedFiles::of(checkpoint));
  const TokenizerOptions recorded =
      options_of([&](std::string_view name) { return checkpoint.described_arg(name); });
  if (tokenizer::names_tokenizer(recorded)) {
    return tokenizer_of_args(checkpoint, carried, recorded);
  }
  if (carried.files().empty()) return Found();
  MEG_ASSIGN_OR_RETURN(const std::optional<TokenizerOptions> own,
                       tokenizer::tokenizer_of_folder(carried.folder()));
  if (!own.has_value()) return Found();
  Found found{.fields = {{"tokenizer_type", own->tokenizer_type}},
              .origin = "files of the checkpoint: " + named(*own)};
  for (const auto& [field, file] :
       {std::pair<const char*, const std::string&>(kFileFields[0].data(), own->vocab_file),
        {kFileFields[1].data(), own->merge_file},
        {kFileFields[2].data(), own->tokenizer_model}}) {
    if (!file.empty()) found.fields.emplace(field, file);
  }
  return found;
}

/// Whether the tokenizer puts its first special token in front of a text, as some revisions do.
bool begins_texts(const tokenizer::Tokenizer& tokenizer) {
  const auto ids = tokenizer.encode("a");
  return tokenizer.bos().has_value() && ids.has_value() && !ids->empty() &&
         ids->front() == *tokenizer.bos();
}

/// tokenizer_config.json for files that come without one.
std::string config_json(const char* tokenizer_class, const tokenizer::Tokenizer& tokenizer,
                        const nlohmann::ordered_json& rules) {
  nlohmann::ordered_json config = {{"tokenizer_class", tokenizer_class}};
  const auto name = [&](const char* key, std::optional<int32_t> id) {
    if (!id.has_value()) return;
    for (const tokenizer::SpecialToken& token : tokenizer.special_tokens()) {
      if (token.id == *id) config[key] = token.text;
    }
  };
  name("bos_token", tokenizer.bos());
  name("eos_token", tokenizer.eod());
  name("pad_token", tokenizer.pad());
  config.update(rules);
  return config.dump(2) + "\n";
}

/// The tokenizer's files by the names that transformers has for them.
Status add_files(const TokenizerOptions& options, const tokenizer::Tokenizer& tokenizer,
                 const CarriedFiles& carried, ExportedFiles from,
                 checkpoint::ExportTokenizer& exported) {
  // Files of Hugging Face's form are copied as they are.
  if (!carried.path_of("tokenizer.json").empty() ||
      !carried.path_of("tokenizer_config.json").empty()) {
    return Status();
  }
  std::vector<TokenizerFile> files;
  std::string config;
  if (options.tokenizer_type == "GPT2BPETokenizer") {
    files = {{"vocab.json", options.vocab_file}, {"merges.txt", options.merge_file}};
    config = config_json("GPT2Tokenizer", tokenizer, {{"add_prefix_space", false}});
  } else if (options.tokenizer_type == "Llama2Tokenizer") {
    files = {{"tokenizer.model", options.tokenizer_model}};
    // Only releases before 5 of transformers look at `legacy`: a text's first space counts, too.
    config = config_json(
        "LlamaTokenizer", tokenizer,
        {{"add_bos_token", begins_texts(tokenizer)}, {"add_eos_token", false}, {"legacy", true}});
  } else if (options.tokenizer_type == "HuggingFaceTokenizer") {
    const fs::path model(options.tokenizer_model);
    std::error_code ignored;
    const std::string folder =
        fs::is_directory(model, ignored) ? model.string() : model.parent_path().string();
    MEG_ASSIGN_OR_RETURN(files, checkpoint::files_of_tokenizer({{folder.empty() ? "." : folder}}));
  } else {
    return make_error(StatusCode::kUnsupported, "transformers has no class that gives its ids");
  }
  // A file of the working folder has no parent's name, and no carried files have no folder.
  const bool are_carried =
      !carried.files().empty() && std::ranges::all_of(files, [&](const TokenizerFile& file) {
        return fs::path(file.path).parent_path() == carried.folder();
      });
  if (!are_carried && from == ExportedFiles::kCarried) {
    return make_error(StatusCode::kUnsupported, "expected its files in the checkpoint's folder");
  }
  for (const TokenizerFile& other : carried.files()) {
    const auto is_other = [&](const TokenizerFile& file) {
      return file.path == other.path || file.name == other.name;
    };
    if (std::ranges::none_of(files, is_other)) files.push_back(other);
  }
  exported.files = std::move(files);
  exported.config_json = std::move(config);
  return Status();
}

}  // namespace

bool takes_checkpoint_tokenizer(megatron::FieldReader& args) {
  return args.flag("use_tokenizer_model_from_checkpoint_args", true);
}

Result<std::string> take_checkpoint_tokenizer(megatron::ArgumentValues& args,
                                              std::shared_ptr<const MegatronCheckpoint>& opened) {
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  if (!takes_checkpoint_tokenizer(reader)) return std::string();
  std::optional<std::string> load;
  std::optional<int64_t> ckpt_step;
  reader.take("load", load);
  reader.take("ckpt_step", ckpt_step);
  const TokenizerOptions given = options_of(fields);
  if (!load.has_value() || names_files(given) || tokenizer::names_tokenizer(given)) {
    return std::string();
  }
  if (opened == nullptr) {
    auto checkpoint = checkpoint::open_weights(*load, args.given_lookup(), ckpt_step);
    if (!checkpoint.has_value()) return std::string();
    opened = std::make_shared<const MegatronCheckpoint>(*std::move(checkpoint));
  }
  const Result<Found> result = tokenizer_of(*opened);
  if (!result.has_value()) {
    return make_error(
        result.error().code(),
        "{}: `tokenizer_type` and `tokenizer_model` (or `vocab_file`) name a tokenizer",
        result.error().message());
  }
  const Found& found = *result;
  const std::string type = options_of(found.fields).tokenizer_type;
  if (found.fields.empty() || (args.given("tokenizer_type") && given.tokenizer_type != type)) {
    return std::string();
  }
  for (const auto& [field, value] : found.fields) {
    // A file's flag that is given as nothing names none.
    const bool names_nothing = args.field(field) == megatron::FieldValue(std::string());
    if (!args.given(field) || names_nothing) args.set(field, value);
  }
  return found.origin;
}

checkpoint::ExportTokenizer exported_tokenizer(const MegatronCheckpoint& checkpoint,
                                               ExportedFiles from) {
  const std::string no_files = "no files of a tokenizer are written: ";
  checkpoint::ExportTokenizer exported;
  const Result<Found> found = tokenizer_of(checkpoint);
  if (!found.has_value()) {
    exported.notes.push_back(no_files + found.error().message());
    return exported;
  }
  if (found->fields.empty()) return exported;
  const auto note = [&](const Status& status) {
    exported.notes.push_back(fmt::format("{}{}: {}", no_files, found->origin, status.message()));
  };
  const TokenizerOptions options = options_of(found->fields);
  const auto opened = tokenizer::open_tokenizer(options);
  if (!opened.has_value()) {
    note(opened.error());
    return exported;
  }
  exported.ids = {.bos = (*opened)->bos(), .eos = (*opened)->eod(), .pad = (*opened)->pad()};
  const Result<CarriedFiles> carried = CarriedFiles::of(checkpoint);
  const Status added = carried.has_value() ? add_files(options, **opened, *carried, from, exported)
                                           : carried.error();
  if (!added.ok()) note(added);
  return exported;
}

}  // namespace meg::tools
