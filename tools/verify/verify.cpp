// Checks datasets, checkpoints and runs. New; Megatron-LM has no such tool.

#include <string>
#include <string_view>

#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"
#include "tools/verify/verify_programs.h"

namespace meg::tools {
namespace {

/// Answers --help, --version and command lines that name nothing to verify.
int usage_main(int argc, const char* const* argv) {
  std::string what;
  Flags flags("verify",
              "checks datasets, checkpoints and runs: verify dataset PREFIX, verify checkpoint "
              "DIR, verify diff A B, verify manifest DIR, verify resume --load DIR --log FILE, "
              "verify run LOG.");
  flags.examples({"verify dataset corpus_text_document", "verify checkpoint checkpoints",
                  "verify resume --load checkpoints --ckpt-step 5000 --log run.log"});
  flags.positional("WHAT", &what, "what to check; see also verify WHAT --help")
      .choices({"dataset", "checkpoint", "diff", "manifest", "resume", "run"});
  const std::string path = argc > 1 ? argv[1] : "";
  if (const std::string command = verify_command_for(path); !command.empty()) {
    return fail_usage(make_error(StatusCode::kInvalidArgument,
                                 "{}: expected dataset, checkpoint, diff, manifest, resume or "
                                 "run before it, found a {}: verify {} {}",
                                 path, command, command, path));
  }
  // After a word that names nothing, the flags of what it was meant to name are no fault.
  const int words = path.empty() || path[0] == '-' ? argc : 2;
  return flags.parse(words, argv).value_or(2);
}

int main(int argc, const char* const* argv) {
  // Choose before any flag is read: each of these is a program with flags of its own.
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "dataset") return verify_dataset_main(argc - 1, argv + 1);
  if (what == "checkpoint") return verify_checkpoint_main(argc - 1, argv + 1);
  if (what == "diff") return verify_diff_main(argc - 1, argv + 1);
  if (what == "manifest") return verify_manifest_main(argc - 1, argv + 1);
  if (what == "run") return verify_run_main(argc - 1, argv + 1);
  if (what == "resume") return verify_resume_main(argc - 1, argv + 1);
  return usage_main(argc, argv);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
