#pragma once

#include <memory>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/convert/export_huggingface.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/megatron/field_reader.h"

namespace meg::tools {

/// Whether args let take_checkpoint_tokenizer() take one: Megatron's
/// use_tokenizer_model_from_checkpoint_args.
bool takes_checkpoint_tokenizer(megatron::FieldReader& args);

/// Where args name no tokenizer, takes the arguments of the tokenizer of the checkpoint that --load
/// names: of a Hugging Face folder, its own; else the one that its args name, with the files in the
/// folder `tokenizer` beside the weights, or else where the args say. Returns what errors of
/// opening it begin with, such as "args of the checkpoint: HuggingFaceTokenizer 'tok'"; empty where
/// nothing was taken: args name one or forbid it, or the checkpoint cannot be opened or says
/// nothing of a tokenizer, as what follows says. opened: that checkpoint; if null, set where it is
/// opened here. kNotFound where the files of its tokenizer are not there, kUnsupported where no
/// type reads them.
Result<std::string> take_checkpoint_tokenizer(
    megatron::ArgumentValues& args, std::shared_ptr<const checkpoint::MegatronCheckpoint>& opened);

/// Where the files of an exported tokenizer may come from.
enum class ExportedFiles {
  kAny,      ///< Also from where the checkpoint's args say.
  kCarried,  ///< From the checkpoint's folder alone.
};

/// What an exported folder has of the checkpoint's tokenizer: its special tokens, and files in the
/// form that transformers reads, where there is one.
checkpoint::ExportTokenizer exported_tokenizer(const checkpoint::MegatronCheckpoint& checkpoint,
                                               ExportedFiles from);

}  // namespace meg::tools
