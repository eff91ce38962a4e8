#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/status.h"

namespace meg::tools {

/// The exit status of a wrong command line, as Python's argparse has it.
inline constexpr int kUsageError = 2;

/// These print texts of the library with_flags().

/// Prints `error: message` on standard error, where it should be the last line, and returns 1.
int fail(const Status& status);

/// Like fail(), for what only the command line can have caused: returns kUsageError.
int fail_usage(const Status& status);

/// Like fail_usage() where the status is kInvalidArgument, otherwise as fail().
int fail_by_code(const Status& status);

/// Prints `wrote PREFIX.{bin,idx} (1.42 GB)` on standard output. A view's size is that of its
/// index.
void print_written_dataset(const std::string& prefix, bool is_view = false);

/// A note where an output at `path` needs more than one new folder, as of a mistyped path. An
/// output that is a folder itself ends in a slash.
void note_new_folders(const std::string& path);

/// Prints `note: text` on standard error.
void note(std::string_view text);

/// Prints `warning: text` on standard error.
void warning(std::string_view text);

}  // namespace meg::tools
