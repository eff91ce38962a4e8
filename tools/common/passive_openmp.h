#pragma once

namespace meg::tools {

/// First thing in a program that computes for long on CPUs: OpenMP's threads then sleep while they
/// wait for work instead of spinning, which takes time from whatever else runs on the machine. The
/// OpenMP library decides that when it is loaded, before main(), so the program restarts itself
/// once. Does nothing where the environment says how threads wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT,
/// KMP_BLOCKTIME), or that there is only one (OMP_NUM_THREADS=1).
void wait_passively(char* const* argv);

}  // namespace meg::tools
