#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/preprocess/preprocess.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The flags that say how inputs are read.
struct InputFlags {
  std::vector<std::string> inputs;
  std::optional<int64_t> max_documents;
  std::string format = "auto";
  std::vector<std::string> csv_columns;
  bool csv_header = false;
  std::string txt_document = "file";
  std::optional<std::string> txt_separator;
  std::optional<std::string> shard;
  int64_t max_compression_ratio = preprocess::InputOptions().max_compression_ratio;
};

/// Declares the flags of the group "Input"; returns --input, which may be left out unless it is
/// required(). max_documents: the help of --max-documents.
Flag declare_input_flags(Flags& flags, InputFlags& input,
                         const std::string& max_documents = "stop after N documents");

/// Sets `options` from them after the command line was parsed, except for the inputs' names and
/// --max-documents. kInvalidArgument for wrong values.
Status finish_input_options(const InputFlags& flags, preprocess::InputOptions& options);

/// The flags that say how texts are split into sentences.
struct SentenceFlags {
  bool split_sentences = false;
  bool keep_newlines = false;
  std::string language = "english";
  std::optional<std::string> punkt_model;

  /// Megatron's, by their fields; --punkt-model is declare_punkt_model()'s.
  void take_fields(megatron::FieldReader& args);
};

void declare_punkt_model(Flags& flags, SentenceFlags& sentences);

/// How sentences are split; nullopt where they are not. kInvalidArgument for flags that need
/// --split-sentences, kNotFound where there is no model for the language.
Result<std::optional<preprocess::SentenceOptions>> sentence_options(
    const SentenceFlags& flags, const megatron::MegatronVersion& version);

/// Brings all of them into the options of what reads the inputs.
template <class Options>
Status finish_input_flags(const InputFlags& flags, Options& options) {
  options.inputs = flags.inputs;
  options.max_documents = flags.max_documents;
  return finish_input_options(flags, options.input);
}

}  // namespace meg::tools
