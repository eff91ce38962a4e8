#pragma once

namespace meg::tools {

// The programs behind `verify WHAT`. argv[0] is WHAT; the result is the exit code.

int verify_dataset_main(int argc, const char* const* argv);
int verify_checkpoint_main(int argc, const char* const* argv);
int verify_diff_main(int argc, const char* const* argv);
int verify_manifest_main(int argc, const char* const* argv);

}  // namespace meg::tools
