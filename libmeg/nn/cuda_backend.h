#pragma once

namespace meg::nn {

/// Whether a GPU can be used. The first call brings the CUDA half of LibTorch into the process,
/// where the driver's device file is: programs are not linked to it, as it takes a second and a
/// gigabyte on machines that cannot use it. To be called before LibTorch is asked anything about
/// CUDA.
bool load_cuda_backend();

/// Makes LibTorch choose, from now on and in the whole process, operators that give the same bits
/// again on the same GPU. To be called before the first of them. Those of CPUs always do.
void use_deterministic_algorithms();

}  // namespace meg::nn
