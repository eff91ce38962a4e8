#include "libmeg/app/checkpoint_args.h"

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "libmeg/app/open_weights.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/model_arguments.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace meg::app {
namespace {

namespace fs = std::filesystem;

/// What a trained model is, and what Megatron takes over beside it.
bool is_taken(const megatron::ArgumentRow& row) {
  return row.effect == megatron::Effect::kModel || row.dest == "hidden_dropout" ||
         row.dest == "attention_dropout" || row.dest == "apply_query_key_layer_scaling" ||
         row.dest == "seq_length";
}

/// The fields that TokenizerOptions reads.
std::vector<std::string> tokenizer_fields() {
  return megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
    megatron::FieldReader reader(lookup);
    tokenizer::TokenizerOptions ignored;
    ignored.take_fields(reader);
  });
}

tokenizer::TokenizerOptions tokenizer_options(const megatron::FieldLookup& lookup) {
  megatron::FieldReader reader(lookup);
  tokenizer::TokenizerOptions options;
  options.take_fields(reader);
  return options;
}

bool names_files(const tokenizer::TokenizerOptions& options) {
  return !options.vocab_file.empty() || !options.merge_file.empty() ||
         !options.tokenizer_model.empty();
}

/// Where the files of a checkpoint's tokenizer are.
class CarriedFiles {
 public:
  static Result<CarriedFiles> of(const checkpoint::MegatronCheckpoint& checkpoint) {
    CarriedFiles carried;
    MEG_ASSIGN_OR_RETURN(carried.files_, checkpoint::tokenizer_files(checkpoint.folder()));
    return carried;
  }

  /// The folder with a tokenizer in Hugging Face's form; empty where it is none.
  std::string huggingface_folder() const {
    const std::string file = path_of("tokenizer.json");
    return file.empty() ? "" : fs::path(file).parent_path().string();
  }

  /// The file or folder that stands for what args call `recorded`, `recorded` itself where none
  /// does.
  std::string found(const std::string& recorded) const {
    if (recorded.empty()) return recorded;
    const std::string own = path_of(fs::path(recorded).filename().string());
    if (!own.empty()) return own;
    const std::string folder = huggingface_folder();
    return folder.empty() ? recorded : folder;
  }

 private:
  std::string path_of(const std::string& name) const {
    for (const checkpoint::TokenizerFile& file : files_) {
      if (file.name == name) return file.path;
    }
    return "";
  }

  std::vector<checkpoint::TokenizerFile> files_;
};

/// Its files must be there, or else a name on a hub would be looked for.
Status check_files(const tokenizer::TokenizerOptions& options) {
  for (const std::string* const file :
       {&options.vocab_file, &options.merge_file, &options.tokenizer_model}) {
    std::error_code ignored;
    if (file->empty() || fs::exists(*file, ignored)) continue;
    return make_error(StatusCode::kNotFound,
                      "args of the checkpoint: {} '{}': expected its files, found none: "
                      "`tokenizer_type` and `tokenizer_model` (or `vocab_file`) name a tokenizer",
                      options.tokenizer_type, text::printable_name(*file, /*limit=*/200));
  }
  return Status();
}

}  // namespace

bool takes_checkpoint_tokenizer(megatron::FieldReader& args) {
  return args.flag("use_tokenizer_model_from_checkpoint_args", true);
}

Status take_checkpoint_tokenizer(megatron::ArgumentValues& args) {
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  if (!takes_checkpoint_tokenizer(reader)) return Status();
  std::optional<std::string> load;
  std::optional<int64_t> ckpt_step;
  reader.take("load", load);
  reader.take("ckpt_step", ckpt_step);
  const tokenizer::TokenizerOptions given = tokenizer_options(fields);
  if (!load.has_value() || names_files(given) || tokenizer::names_tokenizer(given)) return Status();
  const auto checkpoint = open_weights(*load, {}, ckpt_step);
  if (!checkpoint.has_value()) return Status();
  MEG_ASSIGN_OR_RETURN(const CarriedFiles carried, CarriedFiles::of(*checkpoint));
  const megatron::FieldLookup described = [&](std::string_view name) {
    return checkpoint->described_arg(name);
  };
  tokenizer::TokenizerOptions found = tokenizer_options(described);
  const bool is_recorded = tokenizer::names_tokenizer(found);
  const std::string type = is_recorded ? found.tokenizer_type : "HuggingFaceTokenizer";
  if (args.given("tokenizer_type") && given.tokenizer_type != type) return Status();
  if (is_recorded) {
    for (const std::string& field : tokenizer_fields()) {
      const std::optional<megatron::FieldValue> value = described(field);
      const bool is_useless = field == "vocab_size" && found.tokenizer_type != "NullTokenizer";
      if (!value.has_value() || std::holds_alternative<std::monostate>(*value) || is_useless) {
        continue;
      }
      if (args.given(field)) continue;
      args.set(field, *value);
    }
    found.vocab_file = carried.found(found.vocab_file);
    found.merge_file = carried.found(found.merge_file);
    found.tokenizer_model = carried.found(found.tokenizer_model);
  } else if (!carried.huggingface_folder().empty()) {
    found.tokenizer_type = type;
    found.tokenizer_model = carried.huggingface_folder();
  } else {
    return Status();
  }
  MEG_RETURN_IF_ERROR(check_files(found));
  args.set("tokenizer_type", found.tokenizer_type);
  if (!found.vocab_file.empty()) args.set("vocab_file", found.vocab_file);
  if (!found.merge_file.empty()) args.set("merge_file", found.merge_file);
  if (!found.tokenizer_model.empty()) args.set("tokenizer_model", found.tokenizer_model);
  return Status();
}

Result<model::NameFamily> take_checkpoint_args(megatron::ArgumentValues& args) {
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  std::optional<std::string> folder;
  std::optional<int64_t> ckpt_step;
  reader.take("load", folder);
  reader.take("ckpt_step", ckpt_step);
  if (!folder.has_value()) {
    return Status(StatusCode::kInvalidArgument, "`use_checkpoint_args` needs `load`");
  }
  MEG_ASSIGN_OR_RETURN(const checkpoint::MegatronCheckpoint checkpoint,
                       open_weights(*folder, {}, ckpt_step));
  for (const megatron::ArgumentRow& row :
       megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    if (!is_taken(row) || args.given(row.dest)) continue;
    const std::optional<megatron::FieldValue> found = checkpoint::argument_of(checkpoint, row);
    if (!found.has_value() || std::holds_alternative<std::monostate>(*found)) continue;
    args.set(row.dest, *found);
  }
  return checkpoint.family();
}

}  // namespace meg::app
