#pragma once

namespace meg::kernels {

/// The reason why the CUDA kernels cannot run here, as one clause: the CUDA runtime's message about
/// its devices, or that libmeg was built without CUDA. Null if they can.
const char* cuda_problem();

/// Returned by launches in a build without CUDA; codes of the CUDA runtime are not negative.
constexpr int kBuiltWithoutCuda = -1;

}  // namespace meg::kernels
