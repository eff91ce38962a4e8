#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/tokenizer/training/bpe_trainer.h"

namespace meg::tokenizer {

/// How a trained tokenizer is saved.
struct SaveOptions {
  std::string folder;

  /// The special tokens that begin and end a text and fill up a sequence; empty: none is named.
  std::string bos_token, eos_token, pad_token;
};

/// The files of a trained tokenizer: tokenizer.json and tokenizer_config.json, and with GPT-2's
/// pattern vocab.json and merges.txt, which GPT2BPETokenizer reads. They appear together; older
/// ones are replaced. But for tokenizer_config.json they are, byte for byte, what Hugging Face's
/// tokenizers 0.23 saves.
class TrainedBpeFiles {
 public:
  /// Opens the files that the training will write, so that write errors are detected before it
  /// starts. kInvalidArgument if `save` names a token that is not a special one, or if the folder
  /// has files of another tokenizer that would remain beside the new ones; also the errors of
  /// creating the files.
  static Result<TrainedBpeFiles> create(const SaveOptions& save, const BpeTrainerOptions& options);

  Status save(const TrainedBpe& trained);

  /// Paths of the files in the folder.
  std::vector<std::string> paths() const;

 private:
  SaveOptions options_;
  std::vector<std::string> names_;
  std::vector<io::AtomicFile> files_;  // by names_
};

}  // namespace meg::tokenizer
