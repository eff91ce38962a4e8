#pragma once

namespace meg::tools {

/// Each takes the words of a command line behind `dataset_tool`, and returns the exit code.
int repair_main(int argc, const char* const* argv);

}  // namespace meg::tools
