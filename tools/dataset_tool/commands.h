#pragma once

#include <string>
#include <vector>

#include "libmeg/base/status.h"

namespace meg::tools {

/// kInvalidArgument where `file`, which is to be written, is of the dataset or one of `inputs`.
Status check_is_another_file(const std::string& file, const std::string& prefix,
                             std::vector<std::string> inputs = {});

/// Each takes the words of a command line behind `dataset_tool`, and returns the exit code.
int concat_main(int argc, const char* const* argv);
int convert_main(int argc, const char* const* argv);
int provenance_main(int argc, const char* const* argv);
int repair_main(int argc, const char* const* argv);
int stat_main(int argc, const char* const* argv);

}  // namespace meg::tools
