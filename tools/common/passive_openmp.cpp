#include "tools/common/passive_openmp.h"

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

void wait_passively(char* const* argv) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    if (std::getenv(name) != nullptr) return;
  }
  // A rank that torchrun started has one thread (so it sets OMP_NUM_THREADS): there is none to
  // wait.
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  if (threads != nullptr && std::string_view(threads) == "1") return;
  // The variable also marks that the program has been restarted.
  ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/1);
  // /proc/self/exe rather than argv[0]: the path may be relative to another folder, or be found
  // through PATH.
  // Where that cannot be done the program continues as it is.
  ::execv("/proc/self/exe", argv);
}

}  // namespace

int run_passively(int argc, char** argv, int (*body)(int argc, const char* const* argv)) {
  wait_passively(argv);
  return run_program(argc, argv, body);
}

}  // namespace meg::tools
