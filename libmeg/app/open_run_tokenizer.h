#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::app {

/// Opens the tokenizer that a run's flags name. Where they lack one of its flags, the error gives
/// the flags of the tokenizer that the checkpoint's args name, which are never used by themselves:
/// its files may be others on this machine. load: --load, if there is one.
Result<std::unique_ptr<tokenizer::Tokenizer>> open_run_tokenizer(
    const tokenizer::TokenizerOptions& options, const std::optional<std::string>& load,
    std::optional<int64_t> ckpt_step);

}  // namespace meg::app
