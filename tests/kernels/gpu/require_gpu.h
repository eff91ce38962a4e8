#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

/// Skips the test, visibly, where no GPU answers.
#define MEG_REQUIRE_GPU()                                                      \
  do {                                                                         \
    int meg_devices = 0;                                                       \
    if (cudaGetDeviceCount(&meg_devices) != cudaSuccess || meg_devices == 0) { \
      GTEST_SKIP() << "no GPU on this machine";                                \
    }                                                                          \
  } while (false)
