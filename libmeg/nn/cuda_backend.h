#pragma once

namespace meg::nn {

/// Whether a GPU can be used. The first call brings the CUDA half of LibTorch into the process,
/// where the driver's device file is: programs are not linked to it, as it takes a second and a
/// gigabyte on machines that cannot use it. To be called before LibTorch is asked anything about
/// CUDA.
bool load_cuda_backend();

}  // namespace meg::nn
