#pragma once

#include <string_view>

namespace meg::tools {

/// The versions that the programs were built with, for --version: "commit 0123456789, LibTorch
/// 2.11.0, CUDA 13.0".
std::string_view build_info();

}  // namespace meg::tools
