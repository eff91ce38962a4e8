#pragma once

#include <cstdint>

namespace meg::tools {

/// Threads that --workers may ask for.
inline constexpr int64_t kMaxWorkers = 1024;

// The programs behind `verify WHAT`. argv[0] is WHAT; the result is the exit code.

int verify_dataset_main(int argc, const char* const* argv);
int verify_checkpoint_main(int argc, const char* const* argv);
int verify_diff_main(int argc, const char* const* argv);
int verify_manifest_main(int argc, const char* const* argv);
/// With --dry-run says what a resume would take from where; else starts the program that computes
/// the steps, which needs LibTorch, and returns only with an error.
int verify_resume_main(int argc, const char* const* argv);
int plan_resume_main(int argc, const char* const* argv);
int verify_run_main(int argc, const char* const* argv);

}  // namespace meg::tools
