#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::app {

/// Where the options of a run's tokenizer come from.
struct TokenizerOrigin {
  /// What errors begin with where they are those of a checkpoint; empty: of flags.
  std::string of_checkpoint;
  /// The checkpoint of the run; for the error where flags lack one of the tokenizer's.
  std::optional<std::string> load;
  std::optional<int64_t> ckpt_step;
};

/// Opens a run's tokenizer. Where flags lack one of its flags, the error gives those of the
/// tokenizer that the checkpoint's args name.
Result<std::unique_ptr<tokenizer::Tokenizer>> open_run_tokenizer(
    const tokenizer::TokenizerOptions& options, const TokenizerOrigin& origin);

}  // namespace meg::app
