#pragma once

namespace meg::kernels {

/// Why the CUDA kernels cannot run here, one clause: what the CUDA runtime says of its devices, or
/// that libmeg was built without CUDA. Null where they can.
const char* cuda_problem();

/// What the launches of kernels return in a build without CUDA; codes of the CUDA runtime are not
/// negative.
constexpr int kBuiltWithoutCuda = -1;

}  // namespace meg::kernels
