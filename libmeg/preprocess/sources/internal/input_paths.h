#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/input_options.h"

namespace meg::preprocess {

struct InputPaths {
  std::vector<std::string> files;
  std::vector<std::string> notes;  ///< What the inputs leave out or hold twice, maybe by mistake.
};

/// The files that inputs name, as TextSource::open takes them.
Result<InputPaths> resolve_inputs(const std::vector<std::string>& inputs);

/// What a file that holds no columns holds: as the options say, else by its name; not kAuto.
InputFormat format_of(const std::string& path, const InputOptions& options);

/// Appends which options have nothing to do because no file has their format: maybe its name says
/// another one.
void note_idle_options(const InputOptions& options, const std::vector<std::string>& files,
                       std::vector<std::string>& notes);

/// Whether a name says that the file holds columns, which its first bytes must then say too.
bool is_named_as_columns(const std::string& path);

/// kInvalidArgument where the options contradict each other or the JSON keys.
Status check_input_options(const InputOptions& options, const std::vector<std::string>& keys);

}  // namespace meg::preprocess
