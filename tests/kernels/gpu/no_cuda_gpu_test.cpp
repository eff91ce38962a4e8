#include <gtest/gtest.h>

// Stands for the GPU tests where libmeg is built without CUDA.
TEST(KernelsGpuTest, NeedsABuildWithCuda) { GTEST_SKIP() << "libmeg was built without CUDA"; }
