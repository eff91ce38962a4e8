#pragma once

namespace meg::tools {

/// Each takes the words of a command line behind `dataset_tool`, and returns the exit code.
int concat_main(int argc, const char* const* argv);
int convert_main(int argc, const char* const* argv);
int provenance_main(int argc, const char* const* argv);
int repair_main(int argc, const char* const* argv);
int stat_main(int argc, const char* const* argv);

}  // namespace meg::tools
