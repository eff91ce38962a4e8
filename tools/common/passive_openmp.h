#pragma once

namespace meg::tools {

/// run_program() for programs that compute for long on CPUs: OpenMP's threads sleep while they wait
/// for work instead of spinning, which takes time from whatever else runs on the machine. The
/// OpenMP library decides that when it is loaded, before main(), so the program first restarts
/// itself once (docs/decisions/09-passive-openmp.md). It does not where the environment says how
/// threads wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME), or that there is only one
/// (OMP_NUM_THREADS=1).
int run_passively(int argc, char** argv, int (*body)(int argc, const char* const* argv));

}  // namespace meg::tools
