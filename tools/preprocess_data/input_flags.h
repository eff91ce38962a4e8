#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/preprocess.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// How inputs are read, as the command line says it.
struct InputFlags {
  std::string format = "auto";
  std::vector<std::string> csv_columns;
  bool csv_header = false;
  std::string txt_document = "file";
  std::optional<std::string> txt_separator;
  std::optional<std::string> shard;
  int64_t max_compression_ratio = preprocess::InputOptions().max_compression_ratio;
};

/// Declares the flags of the group "Input" into `input` and, where they need no work, `options`.
void declare_input_flags(Flags& flags, InputFlags& input, preprocess::PreprocessOptions& options);

/// Brings them into `options` after the command line was read. kInvalidArgument for wrong values.
Status finish_input_flags(const InputFlags& flags, preprocess::InputOptions& options);

}  // namespace meg::tools
