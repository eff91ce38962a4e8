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

/// The files that inputs name, in the form for TextSource::open().
Result<InputPaths> resolve_inputs(const std::vector<std::string>& inputs);

/// An error of one of several files of a folder, which then says how to leave that one out.
Status with_pattern(const Status& status, const std::string& path,
                    const std::vector<std::string>& files);

/// The format of a file without columns: that of the options, or else by its name; not kAuto.
InputFormat format_of(const std::string& path, const InputOptions& options);

/// Appends notes about options that have no effect because no file has their format, perhaps
/// because of its name.
void note_idle_options(const InputOptions& options, const std::vector<std::string>& files,
                       std::vector<std::string>& notes);

/// Whether a file is named like one with columns, which its first bytes must then confirm.
bool is_named_as_columns(const std::string& path);

/// kInvalidArgument if the options contradict each other or the JSON keys.
Status check_input_options(const InputOptions& options, const std::vector<std::string>& keys);

}  // namespace meg::preprocess
