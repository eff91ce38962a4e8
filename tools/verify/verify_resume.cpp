// verify resume: starts the program that computes a run's steps. verify itself does without
// LibTorch, and meg knows where that is, or says by name what to install.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tools/common/report.h"
#include "tools/verify/verify_programs.h"

namespace meg::tools {

int verify_resume_main(int argc, const char* const* argv) {
  const std::span all(argv, static_cast<size_t>(argc));
  // What says nothing of a log is answered without LibTorch.
  const bool computes = std::ranges::none_of(all, [](std::string_view word) {
    return word == "--dry-run" || word == "--dry_run" || word == "--help" || word == "-h" ||
           word == "--version" || word == "--list-arguments";
  });
  if (!computes) return plan_resume_main(argc, argv);
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<const char*> words = {"meg", "verify-resume"};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  // In a build folder all programs stand beside one another.
  for (const fs::path& place : {folder, folder / MEG_BIN_FOLDER}) {
    const std::string program = (place / "meg").lexically_normal().string();
    if (::access(program.c_str(), X_OK) != 0) continue;
    ::execv(program.c_str(), const_cast<char* const*>(words.data()));
    return fail(errno_error(errno, program));
  }
  return fail(make_error(StatusCode::kNotFound,
                         "verify resume: the program meg, which starts it, was found neither in {} "
                         "nor in {}",
                         folder.native(), (folder / MEG_BIN_FOLDER).lexically_normal().native()));
}

}  // namespace meg::tools
